// SPDX-License-Identifier: Apache-2.0
// The ftx program: reads the command line and does one of the jobs of apps/ftx/cli/program.h.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "apps/ftx/cli/config.h"
#include "apps/ftx/cli/program.h"
#include "apps/ftx/cli/selection.h"
#include "apps/ftx/cli/url.h"
#include "apps/ftx/remote/operand.h"

namespace {

using namespace sluice::ftx;

std::string exit_code_table() {
  std::string text = "Exit codes:\n";
  for (const ExitCodeRow& row : exit_codes) {
    text += fmt::format("  {:>3}  {}\n", static_cast<int>(row.code), row.meaning);
  }
  return text;
}

void add_common_options(CLI::App& app, CommonOptions& options) {
  app.add_option("--stack", options.stack_file, "stack file; without it: kernel UDP, which needs no privileges");
  app.add_option("--name", options.stack_name, "the stack's name; not needed when the file declares one");
  app.add_option_function<std::string>(
         "--mode", [&options](const std::string& name) { options.mode = sluice::mode_named(name); },
         "layered: every module makes its own pass; fused: one pass; default: as the stack file says, else fused")
      ->check(CLI::IsMember({"layered", "fused"}));
  app.add_flag_callback(
      "--json", [&options] { options.console.form = Console::Options::Form::json; },
      "one JSON event a line on standard output");
  app.add_flag_callback(
      "-q,--quiet", [&options] { options.console.detail = Console::Options::Detail::errors; }, "print errors only");
  app.add_option("--idle-timeout", options.idle_timeout_s, "give up after so many seconds without progress")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

/// Of commands that move files. REQUIRES: add_common_options() before.
void add_file_options(CLI::App& app, CommonOptions& options, bool& insecure) {
  app.add_flag_callback(
         "-v,--verbose", [&options] { options.console.detail = Console::Options::Detail::all; },
         "name each file that travels, and say what the session is like: address, cipher, congestion control, path MTU")
      ->excludes(app.get_option("--quiet"));
  auto* progress = app.add_flag_callback(
      "--progress", [&options] { options.console.progress = true; },
      "show progress on standard error; default: where that is a terminal");
  app.add_flag_callback(
         "--no-progress", [&options] { options.console.progress = false; }, "show no progress")
      ->excludes(progress);
  app.add_flag_callback(
      "--no-partial", [&options] { options.keep_partial = false; },
      "leave nothing of a file that is not whole; else the next transfer goes on with it");
  app.add_flag("--verify", options.verify,
               "read what an earlier transfer has left before it is believed; else its journal is");
  app.add_flag("--insecure", insecure, "with ftx:// and serve: neither encrypt nor authenticate; for measurements");
}

CLI::Option* add_key_option(CLI::App& app, TrustOptions& options) {
  return app.add_option("--key", options.key_file, "this user's own key; default: ~/.config/ftx/key, made if need be");
}

void add_secret_option(CLI::App& app, TrustOptions& options) {
  app.add_option("--secret-file", options.secret_file,
                 "a secret that both ends have, of 64 hexadecimal digits: it proves both to each other");
}

void add_ssh_options(CLI::App& app, SshOptions& options) {
  app.add_option("--ssh", options.command, "the ssh program, with arguments of its own")->capture_default_str();
  app.add_option("-p", options.port, "port of ssh there; default: as ssh is configured")->check(CLI::Range(1, 65535));
  app.add_option("--remote-ftx", options.remote_ftx, "ftx there, as the login shell there reads it")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--via",
         [&options](const std::string& name) {
           options.via = name == "udp"    ? SshOptions::Via::udp
                         : name == "pipe" ? SshOptions::Via::pipe
                                          : SshOptions::Via::automatic;
         },
         "what carries the files: udp; pipe: ssh itself; auto (the default): udp, and ssh where that is blocked")
      ->check(CLI::IsMember({"auto", "udp", "pipe"}));
  app.add_option_function<std::string>(
         "--remote-port", [&options](const std::string& text) { options.udp_ports = parse_ports(text).value(); },
         "UDP port there, or FIRST-LAST: as its firewall lets through; default: any")
      ->check([](const std::string& text) {
        return parse_ports(text) ? std::string() : "expected PORT or FIRST-LAST, such as 40000-40100";
      });
  app.add_option("--connect-timeout", options.connect_timeout_s,
                 "give up when ssh has not got through after so many seconds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_update_options(CLI::App& app, Update& update, Selection& select) {
  using Compare = Update::Compare;
  auto* all = app.add_flag_callback(
      "-I,--ignore-times", [&update] { update.compare = Compare::nothing; },
      "send what is there already, too; else files whose size and modification time are the same are left alone");
  auto* size = app.add_flag_callback(
                      "--size-only", [&update] { update.compare = Compare::size; },
                      "do not send files whose size is the same; they get the times of the sources")
                   ->excludes(all);
  app.add_flag_callback(
         "-c,--checksum",
         [&update, &select] {
           update.compare = Compare::digest;
           select.digests = true;
         },
         "compare by content what has the same size, whatever its time: both ends read their files first")
      ->excludes(all)
      ->excludes(size);
  app.add_flag("-u,--update", update.newer, "leave files alone that are newer there");
  auto* existing = app.add_flag("--existing", update.existing, "make nothing that is not there");
  app.add_flag("--ignore-existing", update.ignore_existing,
               "leave alone whatever is there in the place of a file or a link")
      ->excludes(existing);
}

void add_change_options(CLI::App& app, PushOptions& options) {
  app.add_flag_callback(
      "-n,--dry-run", [&options] { options.update.told = options.update.dry_run = true; },
      "say what would change there, and send and change nothing");
  app.add_flag_callback(
      "-i,--itemize-changes", [&options] { options.update.told = options.console.itemize = true; },
      "say what changes there, before it does, and how: a line each, as rsync writes it");
}

/// The keys of the configuration: the flags of transfers that have a long name, except what a command asks for once,
/// what gives up protection, and what chooses the files that a command sends and removes.
std::vector<std::string> configurable(const CLI::App& transfer) {
  constexpr std::array<std::string_view, 18> never{
      "help",        "version", "dry-run", "insecure",        "accept-key",   "progress",
      "no-progress", "filter",  "exclude", "include",         "exclude-from", "include-from",
      "files-from",  "from0",   "delete",  "delete-excluded", "force-delete", "max-delete"};
  std::vector<std::string> keys{"progress"};
  for (const CLI::Option* option : transfer.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (std::ranges::find(never, name) == never.end()) {
        keys.push_back(name);
      }
    }
  }
  return keys;
}

using Options = std::set<const CLI::Option*>;

/// The flag of a setting; null: it is one of transfers, and this command has none.
CLI::Option* option_of(CLI::App& app, const Setting& setting) {
  const bool progress_off = setting.key == "progress" && setting.value == "false";
  return app.get_option_no_throw(progress_off ? "--no-progress" : "--" + setting.key);
}

/// Unless one of the flags that `won` stands against it. Throws CLI::Error for a value that the flag does not take.
void apply(CLI::Option& option, const Setting& setting, const Options& won) {
  if ((option.get_items_expected_max() == 0) != setting.is_flag) {
    throw CLI::ValidationError(setting.key, setting.is_flag ? "expected a value" : "expected true or false");
  }
  const auto has_won = [&won](const CLI::Option* one) { return won.contains(one); };
  const auto excluded = option.get_excludes();
  const bool off = setting.value == "false" && setting.key != "progress";
  if (off || has_won(&option) || std::ranges::any_of(excluded, has_won)) {
    return;
  }
  const auto rival = std::ranges::find_if(excluded, [](const CLI::Option* other) { return other->count() > 0; });
  if (rival != excluded.end()) {
    throw CLI::ValidationError(setting.key,
                               "the same section has " + (*rival)->get_single_name() + ", which excludes it");
  }
  option.add_result(setting.is_flag ? "true" : setting.value);
  option.run_callback();
}

/// The host that the operands name; empty: none, or none that can be understood, which is said later.
std::string host_in(const std::vector<std::string>& operands) {
  for (const std::string& text : operands) {
    const auto operand = parse_operand(text);
    if (operand && operand->kind == Operand::Kind::remote) {
      return operand->host;
    }
    const auto url = parse_url(text);
    if (url) {
      return url->host;
    }
  }
  return {};
}

/// `keys`: those that the configuration may have; what this command has no flag for is passed over.
std::optional<Failure> configure(CLI::App& app, std::span<const std::string> keys,
                                 const std::vector<std::string>& operands) {
  const auto config = Config::load(keys);
  if (!config) {
    return Failure{ExitCode::usage, config.error().text};
  }
  Options won;
  for (CLI::Option* option : app.get_options([](const CLI::Option* one) { return one->count() > 0; })) {
    won.insert(option);
  }
  for (const auto section : config->sections_for(host_in(operands))) {
    Options named;
    for (const Setting& setting : section) {
      try {
        if (CLI::Option* const option = option_of(app, setting)) {
          apply(*option, setting, won);
          named.insert(option);
        }
      } catch (const CLI::Error& error) {
        return Failure{ExitCode::usage, fmt::format("{}: {}", setting.origin, error.what())};
      }
    }
    won.merge(named);
  }
  return std::nullopt;
}

int run(CLI::App& app, int argc, char** argv, const std::function<ExitCode()>& job) {
  app.failure_message([](const CLI::App* of, const CLI::Error& error) {
    return fmt::format("ftx: {}; see {} --help\n", error.what(), of->get_name());
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  return static_cast<int>(job());
}

int serve_main(int argc, char** argv) {
  CLI::App app("Receives files into a directory, and sends files of it to who asks for them", "ftx serve");
  ServeOptions options;
  options.port = default_port;
  app.add_option("DIR", options.directory, "what is served: nothing outside of it is written or read")->required();
  app.add_option("--listen", options.listen, "local IP address; any without it");
  app.add_option("--port", options.port, "local UDP port; 0 lets the system choose")->capture_default_str();
  app.add_flag("--once", options.once, "end with the first transfer, and with its exit code");
  auto* read_only = app.add_flag("--read-only", options.read_only, "clients may fetch files, and send none");
  app.add_flag("--write-only", options.write_only, "clients may send files, and fetch none")->excludes(read_only);
  add_key_option(app, options.trust);
  add_secret_option(app, options.trust);
  auto* allow = app.add_option("--allow", options.trust.allow_file,
                               "who may come: lines of a key, as ftx key prints it, and a name, with read-only or "
                               "write-only in front where that is all he may; default: ~/.config/ftx/allowed_keys");
  app.add_flag("--anyone", options.trust.anyone, "everybody may come; it is still encrypted")->excludes(allow);
  app.add_flag("--allow-delete", options.allow_delete,
               "clients may have removed, in directories that they send, what they do not send");
  app.add_flag("--links", options.links, "clients may send symbolic links, which may lead anywhere");
  app.add_option("--quota", options.quota_bytes, "take and send so many bytes of files in all; units: K, M, G, T")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--transfer-max", options.transfer_bytes_max, "take and send no transfer of more bytes than so many")
      ->transform(CLI::AsSizeValue(false));
  add_common_options(app, options);
  add_file_options(app, options, options.insecure);
  app.footer(exit_code_table());
  return run(app, argc, argv, [&] { return serve(options); });
}

int key_main(int argc, char** argv) {
  CLI::App app("Prints this user's own key, as a line for a server's list of allowed keys", "ftx key");
  TrustOptions options;
  add_key_option(app, options);
  return run(app, argc, argv, [&] { return show_key(options); });
}

void add_trust_options(CLI::App& app, TrustOptions& options) {
  add_key_option(app, options);
  add_secret_option(app, options);
  app.add_option("--known-hosts", options.known_hosts_file,
                 "the keys of servers, for ftx://; default: ~/.config/ftx/known_hosts");
  app.add_option("--accept-key", options.accept_key,
                 "the key of a server that is not known yet, for ftx://, as ftx key prints it there");
}

/// All flags of a transfer: they are the keys of the configuration, too.
void add_transfer_options(CLI::App& app, PushOptions& options, SelectionArguments& selection,
                          std::vector<std::string>& operands) {
  app.set_version_flag("--version", SLUICE_VERSION);
  app.add_option("SRC... DEST", operands, "files, then where they go: a directory when it ends in '/' or exists")
      ->required()
      ->expected(2, -1);
  app.add_flag_callback(
      "-r,--recursive",
      [&options, &selection] {
        options.trees = std::max(options.trees, Trees::without_links);
        selection.recursive();
      },
      "send or fetch directories with what lies in them; DIR/ means only what lies in it; symbolic links are left out");
  app.add_flag_callback(
      "-a,--archive", [&options] { options.trees = Trees::with_links; }, "as -r, and symbolic links as links");
  app.add_flag("-H,--hard-links", options.select.hard_links, "files that are one file under several names stay one");
  add_update_options(app, options.update, options.select);
  add_change_options(app, options);
  selection.add_to(app);
  auto* rate = app.add_option("--rate", options.rate_mbit,
                              "send at so many Mbit/s, whatever the network does; ends when a third is lost for 10 s")
                   ->check(CLI::PositiveNumber);
  auto* congestion = app.add_option_function<std::string>(
                            "--congestion", [&options](const std::string& name) { options.cubic = name == "cubic"; },
                            "congestion control: bbr (the default) or cubic")
                         ->check(CLI::IsMember({"bbr", "cubic"}))
                         ->excludes(rate);
  app.add_flag("--background", options.background, "give way to all other traffic")
      ->excludes(rate)
      ->excludes(congestion);
  app.add_option(
      "--datagram-bytes", options.datagram_bytes,
      "the largest UDP payload; default: what the path carries, up to frames of 9000; with --stack: of 1500");
  add_ssh_options(app, options.ssh);
  add_trust_options(app, options.trust);
  add_common_options(app, options);
  add_file_options(app, options, options.insecure);
  app.footer(exit_code_table());
}

std::vector<std::string> configuration_keys() {
  CLI::App app;
  PushOptions options;
  SelectionArguments selection;
  std::vector<std::string> operands;
  add_transfer_options(app, options, selection, operands);
  return configurable(app);
}

int doctor_main(int argc, char** argv) {
  CLI::App app(
      "Looks for what is in the way of transfers to another host, and says what to do about it: ssh, the ftx there,\n"
      "UDP both ways, path MTU, round trip, socket buffers, clocks. Without a host: what can be seen of this one.",
      "ftx doctor");
  PushOptions options;
  options.version = SLUICE_VERSION;
  app.add_option("HOST", options.destination, "[USER@]HOST, through ssh, or ftx://HOST:PORT");
  add_ssh_options(app, options.ssh);
  add_trust_options(app, options.trust);
  add_common_options(app, options);
  app.footer(exit_code_table());
  return run(app, argc, argv, [&] {
    // Without a host another ftx asks, through ssh; it wants to know of the host, not of the user's wishes.
    const auto failure =
        options.destination.empty() ? std::nullopt : configure(app, configuration_keys(), {options.destination});
    return failure ? Console(options.console).fail(*failure) : doctor(options);
  });
}

int transfer_main(int argc, char** argv) {
  CLI::App app(
      "Sends files:      ftx SRC... [USER@]HOST:PATH       through ssh, as scp does\n"
      "                  ftx SRC... ftx://HOST:PORT/PATH   to: ftx serve DIR\n"
      "Fetches files:    ftx [USER@]HOST:SRC... DEST\n"
      "                  ftx ftx://HOST:PORT/SRC... DEST   from: ftx serve DIR\n"
      "Directories:      with -r or -a",
      "ftx");
  PushOptions options;
  SelectionArguments selection;
  options.version = SLUICE_VERSION;
  std::vector<std::string> operands;
  add_transfer_options(app, options, selection, operands);
  return run(app, argc, argv, [&] {
    if (const auto failure = configure(app, configuration_keys(), operands)) {
      return Console(options.console).fail(*failure);
    }
    options.destination = operands.back();
    options.sources.assign(operands.begin(), operands.end() - 1);
    if (const auto put = selection.put(options); !put) {
      return Console(options.console).fail({ExitCode::usage, put.error()});
    }
    return transfer(options);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view job = argc > 1 ? argv[1] : "";
  // What ssh runs there; not for people, so --help is silent about it.
  if (job == "remote" && argc == 2) {
    return static_cast<int>(remote(SLUICE_VERSION));
  }
  // A file of that name is sent all the same: ftx key HOST:
  if (job == "key" && (argc == 2 || argv[2][0] == '-')) {
    return key_main(argc - 1, argv + 1);
  }
  // Likewise: ftx ./doctor HOST:
  if (job == "doctor") {
    return doctor_main(argc - 1, argv + 1);
  }
  return job == "serve" ? serve_main(argc - 1, argv + 1) : transfer_main(argc, argv);
}
