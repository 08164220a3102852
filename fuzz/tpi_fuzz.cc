// SPDX-License-Identifier: Apache-2.0
#include "fuzz/round_trip.h"
#include "stack/wire/tpi.h"

namespace {

template <class... Primitives>
void round_trip_each(sluice::ConstBytes block) {
  (sluice::fuzz::round_trip_free<Primitives>(block), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::wire::tpi;
  round_trip_each<UnitdataReq, UnitdataInd, UderrorInd, InfoReq, InfoAck, BindReq, OldBindReq, BindAck, UnbindReq,
                  OptmgmtReq, Svr4OptmgmtReq, OptmgmtAck, OkAck, ErrorAck, AddrReq, AddrAck, CapabilityReq,
                  CapabilityAck>(sluice::fuzz::input(data, size));
  return 0;
}
