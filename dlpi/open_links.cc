// SPDX-License-Identifier: Apache-2.0
#include "dlpi/open_links.h"

#include <cerrno>

#include "stack/core/stream_set.h"

namespace sluice::dlpi {
namespace {

struct OpenLink {
  std::weak_ptr<Link> link;
  Parameters parameters;
};

}  // namespace

std::shared_ptr<Link> find_link(StreamSet& set, const std::string& name) {
  return set.shared<OpenLink>(name).link.lock();
}

Result<std::shared_ptr<Link>> open_link(StreamSet& set, const std::string& name, const Parameters& parameters,
                                        const LinkMaker& make) {
  auto& open = set.shared<OpenLink>(name);
  if (std::shared_ptr<Link> link = open.link.lock(); link != nullptr) {
    if (open.parameters.values() != parameters.values()) {
      return fail(EINVAL, "'" + name + "' is open already with other parameters; streams that share it must agree");
    }
    return link;
  }
  Result<std::shared_ptr<Link>> made = make();
  if (made) {
    open = {.link = *made, .parameters = parameters};
  }
  return made;
}

}  // namespace sluice::dlpi
