// SPDX-License-Identifier: Apache-2.0
#include "dlpi/link_table.h"

#include <cerrno>

namespace sluice::dlpi {

std::shared_ptr<Link> LinkTable::find(StreamSet& set, const std::string& name) {
  const std::scoped_lock lock(mutex_);
  const auto at = links_.find(Key(&set, name));
  return at == links_.end() ? nullptr : at->second.link.lock();
}

Result<std::shared_ptr<Link>> LinkTable::open(StreamSet& set, const std::string& name, const Parameters& parameters,
                                              const Make& make) {
  if (std::shared_ptr<Link> link = find(set, name); link != nullptr) {
    const std::scoped_lock lock(mutex_);
    if (links_[Key(&set, name)].parameters.values() != parameters.values()) {
      return fail(EINVAL, "'" + name + "' is open already with other parameters; streams that share it must agree");
    }
    return link;
  }
  Result<std::shared_ptr<Link>> made = make();
  if (made) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(links_, [](const auto& entry) { return entry.second.link.expired(); });
    links_[Key(&set, name)] = {*made, parameters};
  }
  return made;
}

}  // namespace sluice::dlpi
