// SPDX-License-Identifier: Apache-2.0

// Any text as a stack file, against a small registry. Nothing crashes; a file that is refused gets at least one line of
// reason, and no byte of it that a terminal would obey; one that is accepted opens, and its stream has what it
// declares.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/contract.h"
#include "stack/head/stack_file.h"
#include "tests/stack/head/fake_registry.h"

namespace {

using namespace sluice;

bool is_fit_for_a_terminal(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool c1 = byte == 0xc2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
    if ((byte < 0x20 && byte != '\n') || byte == 0x7f || c1) {
      return false;
    }
  }
  return true;
}

void check_refusal(const Error& error) {
  SLUICE_REQUIRE(!error.text.empty() && error.code != 0);
  SLUICE_REQUIRE(is_fit_for_a_terminal(error.text));
}

void check_stack(const StackDeclaration& declaration) {
  StreamSet set;
  const auto stream = open_stack(set, declaration);
  if (!stream) {
    return check_refusal(stream.error());
  }
  SLUICE_REQUIRE((*stream)->list().size() == declaration.push.size() + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Registry registry = test::fake_registry();
  const auto file = StackFile::parse({reinterpret_cast<const char*>(data), size}, "fuzz.toml", registry);
  if (!file) {
    check_refusal(file.error());
    return 0;
  }
  for (const StackDeclaration& declaration : file->stacks()) {
    SLUICE_REQUIRE(file->find(declaration.name).value_or(nullptr) == &declaration);
    check_stack(declaration);
  }
  if (const auto found = file->find("no such stack"); !found) {
    check_refusal(found.error());
  }
  return 0;
}
