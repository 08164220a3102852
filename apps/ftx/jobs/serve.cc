// SPDX-License-Identifier: Apache-2.0
#include "apps/common/entropy.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/served_files.h"
#include "apps/ftx/jobs/confined.h"
#include "apps/ftx/jobs/fixed_destination.h"
#include "apps/ftx/jobs/host.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/journal_thread.h"
#include "apps/ftx/jobs/observer.h"
#include "apps/ftx/jobs/reach.h"
#include "apps/ftx/jobs/receiving.h"
#include "apps/ftx/jobs/sending.h"
#include "apps/ftx/jobs/shown_destination.h"
#include "apps/ftx/jobs/trust.h"
#include "apps/ftx/jobs/url.h"
#include "apps/ftx/jobs/worker_threads.h"
#include "apps/ftx/session/server.h"

namespace sluice::ftx {
namespace {

/// What clients fetch: files of the served directory.
class FileProvider final : public Provider {
 public:
  /// `accounts`: of owners, whom clients are told of; null: they are not.
  FileProvider(ServedFiles files, std::shared_ptr<const Accounts> accounts, const Transport& transport,
               Duration idle_timeout)
      : files_(std::move(files)), accounts_(std::move(accounts)), transport_(transport), idle_timeout_(idle_timeout) {}

  [[nodiscard]] std::expected<OpenedPull, Failure> open(const PullRequest& request, const Peer& to) override {
    const std::size_t most = request.datagram_bytes != 0 ? request.datagram_bytes : transport_.tsdu_bytes();
    const auto datagram = datagram_size_for({}, is_v6(to), transport_, most);
    if (!datagram) {
      return std::unexpected(datagram.error());
    }
    Selection select = request.select;
    select.user = select.user && accounts_ != nullptr;
    select.group = select.group && accounts_ != nullptr;
    auto source = files_.open(
        request.paths, {.trees = request.trees, .pack = true, .select = std::move(select), .accounts = accounts_});
    if (!source) {
      return std::unexpected(source.error());
    }
    return OpenedPull{.source = *std::move(source),
                      .congestion = congestion_for(asked_of(request.congestion, request.rate), datagram->usual_bytes),
                      .options = {.peer = to,
                                  .path = {},
                                  .delta = request.delta,
                                  .tsdu_bytes = datagram->bytes_max,
                                  .ip_header_bytes = datagram->ip_header_bytes,
                                  // Not always: the processor is there for other clients, too.
                                  .compress = std::min(request.compress, Compress::when_it_pays),
                                  .clock = cost_clock,
                                  .seed = entropy(),
                                  .idle_timeout = idle_timeout_}};
  }

 private:
  ServedFiles files_;
  std::shared_ptr<const Accounts> accounts_;
  const Transport& transport_;
  Duration idle_timeout_;
};

/// Threat: files and directories without content, which no bound of bytes keeps off a disk.
std::uint64_t entries_for(std::optional<std::uint64_t> entries, std::optional<std::uint64_t> bytes) {
  constexpr std::uint64_t bytes_of_an_entry = 4096;
  constexpr std::uint64_t entries_least = 1024;
  return entries ? *entries : bytes ? std::max(*bytes / bytes_of_an_entry, entries_least) : Budget::unlimited;
}

}  // namespace

ExitCode serve(const ServeOptions& options, Observer& observer) {
  JournalThread journals;
  WorkerThreads workers;
  auto destination =
      DirectoryDestination::serve(options.directory, entropy(), LandBy::faster, partials_of(options, journals));
  if (!destination) {
    return observer.fail({ExitCode::write_failed, destination.error().text});
  }
  (*destination)->employ(workers);
  if (options.allow_delete) {
    (*destination)->allow_deletion();
  }
  const Kept kept{.user = options.owners,
                  .group = options.owners,
                  .attributes = options.attributes,
                  .accounts = options.owners ? Accounts::of_this_host() : nullptr};
  (*destination)->keep(kept);
  if (options.insecure && options.read_only) {
    return observer.fail({ExitCode::usage, "--read-only: files are fetched by encrypted sessions, without --insecure"});
  }
  const Access access = options.read_only ? Access::read : options.write_only ? Access::write : Access::both;
  auto files = ServedFiles::serve(options.directory);
  if (!files) {
    return observer.fail({ExitCode::source_unreadable, files.error().text});
  }
  std::expected<ServerTrust, Failure> trust;
  if (!options.insecure) {
    forbid_core_dumps(options);
    trust = server_trust(options.trust, access);
    if (!trust) {
      return observer.fail(trust.error());
    }
  }
  auto host = Host::start(options);
  if (!host) {
    return observer.fail(host.error());
  }
  Result<wire::IpAddress> local =
      options.listen.empty() ? Result<wire::IpAddress>(any_address(true)) : resolve(options.listen);
  if (!local) {
    return observer.fail({ExitCode::usage, local.error().text});
  }
  auto transport = (*host)->open({*local, options.port});
  if (!transport && options.listen.empty()) {
    transport = (*host)->open({any_address(false), options.port});  // a stack without IPv6
  }
  if (!transport) {
    return observer.fail(transport.error());
  }
  ServerOptions server_options;
  server_options.seed = entropy();
  server_options.tsdu_bytes = (*transport)->tsdu_bytes();
  server_options.insecure = options.insecure;
  FileProvider provider(*std::move(files), kept.accounts, **transport, seconds(options.idle_timeout_s));
  if (!options.insecure) {
    server_options.handshake = trust->context;
    server_options.access = trust->access;
    server_options.provider = &provider;
  }
  server_options.quota_bytes = options.quota_bytes.value_or(Budget::unlimited);
  server_options.transfer_bytes_max = options.transfer_bytes_max.value_or(Budget::unlimited);
  server_options.quota_entries = entries_for(options.quota_entries, options.quota_bytes);
  server_options.transfer_entries_max = entries_for(options.transfer_entries_max, options.transfer_bytes_max);
  server_options.receive_room_bytes = (*transport)->receive_room();
  server_options.host_of = host_of;
  server_options.receiver.idle_timeout = seconds(options.idle_timeout_s);
  ShownDestination shown(**destination, observer);
  LinklessDestination linkless(shown);
  Server server(server_options, options.links ? static_cast<Destination&>(shown) : linkless);
  confine(options, rights_to_serve(options.directory, access, trust->allowed_keys), observer, kept);
  Event listening;
  listening.kind = Event::Kind::listening;
  listening.path = (*transport)->local().to_text();
  listening.text = options.insecure ? "" : trust->key.text();
  observer.show(listening);
  return Receiving(**host, **transport, server, observer, options.once).run();
}

}  // namespace sluice::ftx
