// SPDX-License-Identifier: Apache-2.0
#include "fuzz/round_trip.h"
#include "stack/wire/dlpi.h"

namespace {

template <class... Primitives>
void round_trip_each(sluice::ConstBytes block) {
  (sluice::fuzz::round_trip_bounded<Primitives>(block), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::wire::dlpi;
  const sluice::ConstBytes block = sluice::fuzz::input(data, size);
  round_trip_each<UnitdataReq, UnitdataInd, UderrorInd, InfoReq, DetachReq, UnbindReq, GetStatisticsReq, AttachReq,
                  OkAck, PromisconReq, PromiscoffReq, PhysAddrReq, NotifyAck, InfoAck, BindReq, BindAck, SubsBindReq,
                  SubsBindAck, SubsUnbindReq, ErrorAck, EnabmultiReq, DisabmultiReq, PhysAddrAck, SetPhysAddrReq,
                  NotifyReq, NotifyInd, CapabilityReq, CapabilityAck, FilterReq>(block);
  sluice::fuzz::round_trip_free<GetStatisticsAck>(block);
  return 0;
}
