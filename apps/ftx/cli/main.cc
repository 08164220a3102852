// SPDX-License-Identifier: Apache-2.0
// The ftx program: reads the command line, and does one of the jobs of apps/ftx/jobs/jobs.h or one of its own commands.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "apps/ftx/arguments/option_groups.h"
#include "apps/ftx/arguments/serve_arguments.h"
#include "apps/ftx/arguments/transfer_arguments.h"
#include "apps/ftx/cli/commands.h"
#include "apps/ftx/cli/config.h"
#include "apps/ftx/cli/console.h"
#include "apps/ftx/jobs/fetch_destination.h"
#include "apps/ftx/jobs/jobs.h"
#include "apps/ftx/jobs/url.h"
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

/// How a command shows what it does.
void add_console_options(CLI::App& app, Console::Options& options) {
  app.add_flag_callback(
      "--json", [&options] { options.form = Console::Options::Form::json; },
      "one JSON event a line on standard output");
  app.add_flag_callback(
      "-q,--quiet", [&options] { options.detail = Console::Options::Detail::errors; }, "print errors only");
}

/// The same of commands that move files.
void add_progress_options(CLI::App& app, Console::Options& options) {
  add_console_options(app, options);
  app.add_flag_callback(
         "-v,--verbose", [&options] { options.detail = Console::Options::Detail::all; },
         "name each file that travels, and say what the session is like: address, cipher, congestion control, path MTU")
      ->excludes(app.get_option("--quiet"));
  auto* progress = app.add_flag_callback(
      "--progress", [&options] { options.progress = true; },
      "show progress on standard error; default: where that is a terminal");
  app.add_flag_callback(
         "--no-progress", [&options] { options.progress = false; }, "show no progress")
      ->excludes(progress);
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
  Console::Options shown;
  add_serve_options(app, options);
  add_progress_options(app, shown);
  app.footer(exit_code_table());
  return run(app, argc, argv, [&] {
    Console console(shown);
    return serve(options, console);
  });
}

int key_main(int argc, char** argv) {
  CLI::App app("Prints this user's own key, as a line for a server's list of allowed keys", "ftx key");
  TrustOptions options;
  add_key_option(app, options);
  return run(app, argc, argv, [&] { return show_key(options); });
}

/// The command line of a transfer.
struct TransferLine {
  explicit TransferLine(CLI::App& app) : arguments(app) {
    app.set_version_flag("--version", SLUICE_VERSION);
    add_progress_options(app, shown);
    app.footer(exit_code_table());
  }
  Console::Options shown;
  TransferArguments arguments;
};

std::vector<std::string> configuration_keys() {
  CLI::App app;
  const TransferLine line(app);
  return configurable(app);
}

int doctor_main(int argc, char** argv) {
  CLI::App app(
      "Looks for what is in the way of transfers to another host, and says what to do about it: ssh, the ftx there,\n"
      "UDP both ways, path MTU, round trip, socket buffers, clocks. Without a host: what can be seen of this one.",
      "ftx doctor");
  PushOptions options;
  Console::Options shown;
  options.version = SLUICE_VERSION;
  app.add_option("HOST", options.destination, "[USER@]HOST, through ssh, or ftx://HOST:PORT");
  add_ssh_options(app, options.ssh);
  add_trust_options(app, options.trust);
  add_common_options(app, options);
  add_console_options(app, shown);
  app.footer(exit_code_table());
  return run(app, argc, argv, [&] {
    // Without a host another ftx asks, through ssh; it wants to know of the host, not of the user's wishes.
    const auto failure =
        options.destination.empty() ? std::nullopt : configure(app, configuration_keys(), {options.destination});
    return failure ? Console(shown).fail(*failure) : doctor(options, shown);
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
  TransferLine line(app);
  return run(app, argc, argv, [&] {
    const auto failure = configure(app, configuration_keys(), line.arguments.operands());
    auto options = failure ? std::unexpected(*failure) : line.arguments.options();
    line.shown.itemize = options && options->itemize;
    line.shown.keeps_output = options && options->destination == standard_output;
    Console console(line.shown);
    if (!options) {
      return console.fail(options.error());
    }
    options->version = SLUICE_VERSION;
    return transfer(*options, console);
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
