// SPDX-License-Identifier: Apache-2.0
#pragma once

// PayloadPlace: where the payload of a DATA datagram is to land. A plain value; borrows both.

#include "base/bytes.h"

namespace sluice::ftx {

class Protection;

struct PayloadPlace {
  Bytes memory{};               // as long as the payload; empty: there is no place for it
  Protection* opens = nullptr;  // the payload is sealed: it is opened on its way (Protection::begin_payload())
};

}  // namespace sluice::ftx
