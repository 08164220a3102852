// SPDX-License-Identifier: Apache-2.0
#include "fuzz/round_trip.h"
#include "stack/wire/tpi_connection.h"

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
                  CapabilityAck, ConnReq, ConnInd, ConnRes, OldConnRes, ConnCon, DisconReq, DisconInd, DataReq, DataInd,
                  ExdataReq, ExdataInd, OrdrelReq, OrdrelInd>(sluice::fuzz::input(data, size));
  return 0;
}
