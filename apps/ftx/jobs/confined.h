// SPDX-License-Identifier: Apache-2.0
#pragma once

// Confined: which files each role of the program keeps (apps/ftx/security/confinement.h), and when it gives up all
// others: once it is set up, before it reads the first byte of a peer.
//
//     serve              what lies below the directory, and where the list of allowed keys lies
//     push               the sources
//     fetch              the destination
//                        either until the key of a new server is pinned: also where known_hosts lies
//     through ssh, near  the sources or the destination, once ssh runs and the host's name is resolved; it may signal
//                        that ssh
//     through ssh, far   starts no program from the beginning; its files are known when the request is
//     doctor             no file; a host behind ssh is asked twice, and what follows is confined
//
// What the kernel lacks is an event.

#include <span>
#include <string>

#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/security/access.h"
#include "apps/ftx/security/confinement.h"

namespace sluice::ftx {

/// Of a sender. Where the sources are many (a pattern names a million), their directories stand for them.
[[nodiscard]] FileRights rights_to_send(std::span<const std::string> sources);
inline constexpr std::size_t single_sources_max = 1024;

[[nodiscard]] FileRights rights_to_receive(const std::string& directory);

/// `allowed_keys`: the list, which an editor may replace by another file meanwhile; empty: none.
[[nodiscard]] FileRights rights_to_serve(const std::string& directory, Access access, const std::string& allowed_keys);

/// `rights`, and to replace the file `path`.
[[nodiscard]] FileRights and_to_replace(FileRights rights, const std::string& path);

// Each of these does nothing where the process is not the job's own.

/// Keys lie in ordinary memory, too, while a cipher works with them.
void forbid_core_dumps(const CommonOptions& options);

/// `kept`: what a receiver sets of owners and extended attributes. `child`: the ssh that may be signalled.
void confine(const CommonOptions& options, const FileRights& files, Observer& observer, const Kept& kept = {},
             std::optional<pid_t> child = std::nullopt);

/// Gives up more files, behind confine().
void restrict_files(const CommonOptions& options, const FileRights& files);

}  // namespace sluice::ftx
