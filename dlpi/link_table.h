// SPDX-License-Identifier: Apache-2.0
#pragma once

// The links that are open, so that streams of one stream set that name one device share it. The table knows links,
// the streams own them: an entry is dead once its last stream is closed.
//
// Threads: stream sets on several threads may open links at once; a lock guards the table (never on the data path).

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "dlpi/link.h"
#include "stack/core/registry.h"

namespace sluice::dlpi {

class LinkTable {
 public:
  using Make = std::function<Result<std::shared_ptr<Link>>()>;

  /// The link that this set has open under `name`, else what `make` makes. EINVAL when it is open with other
  /// parameters: it has one MTU and one address.
  Result<std::shared_ptr<Link>> open(StreamSet& set, const std::string& name, const Parameters& parameters,
                                     const Make& make);
  /// nullptr when it is not open.
  [[nodiscard]] std::shared_ptr<Link> find(StreamSet& set, const std::string& name);

 private:
  using Key = std::pair<const StreamSet*, std::string>;
  struct Open {
    std::weak_ptr<Link> link;
    Parameters parameters;
  };

  std::mutex mutex_;
  std::map<Key, Open> links_;
};

}  // namespace sluice::dlpi
