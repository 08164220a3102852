// SPDX-License-Identifier: Apache-2.0
#pragma once

// The jobs of ftx: each connects a session to a transport and a run loop, and tells an observer what happens. `push`
// and `fetch` meet `serve` at an address; those through ssh start `remote` there (docs/formats/ftx-start.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/files/ownership.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/protocol/compress.h"
#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/update.h"
#include "apps/ftx/remote/start_message.h"
#include "stack/core/module.h"

namespace sluice::ftx {

struct CommonOptions {
  std::string stack_file;  // empty: kernel UDP
  std::string stack_name;
  std::optional<ProcessingMode> mode;  // --mode; without it: what the stack file says, and fused over kernel UDP
  double idle_timeout_s = 30;
  // Of what this side receives; through ssh, of what the other side does.
  bool keep_partial = true;
  bool verify = false;
  /// This process is there for the job alone: SIGINT and SIGTERM end the job, files and calls that it does not need are
  /// given up for good (apps/ftx/jobs/confined.h), and it leaves no core dump.
  bool own_process = true;
  int stop_descriptor = -1;  // the job ends as by SIGINT when this is readable
};

/// Whom to know, for `serve` and ftx:// (apps/ftx/jobs/trust.h). Empty names: files of the configuration directory.
struct TrustOptions {
  std::string key_file;
  std::string secret_file;  // empty: none
  std::string known_hosts_file;
  std::string accept_key;  // of a server that is not known yet
  std::string allow_file;
  bool anyone = false;
};

struct ServeOptions : CommonOptions {
  bool insecure = false;
  TrustOptions trust;
  std::optional<std::uint64_t> quota_bytes;
  std::optional<std::uint64_t> transfer_bytes_max;
  /// Without them: one for each 4 KiB of the bytes, where these have a bound, and 1,024 at least.
  std::optional<std::uint64_t> quota_entries;
  std::optional<std::uint64_t> transfer_entries_max;
  std::string directory;
  std::string listen;  // an IP address; empty: any
  std::uint16_t port = 0;
  bool once = false;          // end after the first transfer
  bool read_only = false;     // clients fetch
  bool write_only = false;    // clients send
  bool allow_delete = false;  // clients may have removed what they do not send
  bool links = false;         // clients may send symbolic links
  bool attributes = false;    // clients may send extended attributes
  bool owners = false;        // clients say who owns what they send, and are told who owns what they fetch
};

/// How to start the ftx on the other host.
struct SshOptions {
  std::string command = "ssh";        // a program and its first arguments
  std::optional<std::uint16_t> port;  // without it: as ssh is configured
  std::string remote_ftx = "ftx";
  double connect_timeout_s = 120;  // time to answer questions of ssh, too
  /// What carries the files: UDP, the pipe of ssh, or UDP and the pipe where UDP does not come through.
  enum class Via : std::uint8_t { automatic, udp, pipe };
  Via via = Via::automatic;
  PortRange udp_ports;  // where the far side may listen
};

struct PushOptions : CommonOptions {
  bool insecure = false;  // ftx:// without a handshake
  TrustOptions trust;
  std::string version;  // of this program
  std::vector<std::string> sources;
  std::string destination;  // ftx://HOST:PORT/PATH, [user@]host:path, or local
  Trees trees = Trees::none;
  Update update;         // what is left alone at the destination
  bool itemize = false;  // changes are wanted with how they differ
  Selection select;
  std::optional<Deletion> deletion;
  bool numeric_ids = false;  // owners by number alone
  [[nodiscard]] std::shared_ptr<const Accounts> accounts() const {
    return (select.user || select.group) && !numeric_ids ? Accounts::of_this_host() : nullptr;
  }
  /// For the end that sends.
  [[nodiscard]] SourceOptions source_options() const {
    return {.trees = trees, .pack = true, .select = select, .deletion = deletion, .accounts = accounts()};
  }
  /// For the end that receives what it has asked for.
  [[nodiscard]] Kept kept() const {
    return {.user = select.user, .group = select.group, .attributes = select.attributes, .accounts = accounts()};
  }
  SshOptions ssh;
  std::optional<double> rate_mbit;  // --rate
  bool cubic = false;               // --congestion cubic; else bbr
  bool background = false;
  Compress compress = Compress::never;
  std::optional<std::size_t> datagram_bytes;
};

/// Serves a directory until SIGINT or SIGTERM: receives into it, and sends from it.
[[nodiscard]] ExitCode serve(const ServeOptions& options, Observer& observer);

/// Sends files to an ftx:// URL.
[[nodiscard]] ExitCode push(const PushOptions& options, Observer& observer);

/// Fetches files from ftx:// URLs of one server.
[[nodiscard]] ExitCode fetch(const PushOptions& options, Observer& observer);

/// Sends or receives files, as the operands say.
[[nodiscard]] ExitCode transfer(const PushOptions& options, Observer& observer);

/// The far side of a start: `ftx remote`, which ssh runs. Standard input and output are the pipe.
[[nodiscard]] ExitCode remote(std::string_view version);

}  // namespace sluice::ftx
