// SPDX-License-Identifier: Apache-2.0
// For private_file_test.py: writes or reads one private file (apps/ftx/security/private_file.h), and says how that
// went.
//   private_file_steps create|replace PATH TEXT
//   private_file_steps read PATH
#include <cstdio>
#include <string_view>

#include "apps/ftx/security/private_file.h"

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::ftx;
  const std::string_view step = argc > 2 ? argv[1] : "";
  if (step == "read") {
    const auto content = read_private_file(argv[2], Readers::owner_only);
    std::puts(content ? std::string(as_text(*content)).c_str() : content.error().text.c_str());
    return content ? 0 : 2;
  }
  if (argc != 4) {
    return 1;
  }
  const Status written = write_private_file(argv[2], as_bytes(std::string_view(argv[3])),
                                            step == "create" ? IfPresent::refuse : IfPresent::replace);
  std::puts(written ? "" : written.error().text.c_str());
  return written ? 0 : 2;
}
