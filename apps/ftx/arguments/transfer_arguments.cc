// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/arguments/transfer_arguments.h"

#include <algorithm>

#include "apps/ftx/arguments/option_groups.h"

namespace sluice::ftx {
namespace {

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
  app.add_flag("--delta", update.delta,
               "of files that differ from what is there, send only what has changed: both ends read these files first");
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
      "-i,--itemize-changes", [&options] { options.update.told = options.itemize = true; },
      "say what changes there, before it does, and how: a line each, as rsync writes it");
}

}  // namespace

TransferArguments::TransferArguments(CLI::App& app) {
  app.add_option("SRC... DEST", operands_, "files, then where they go: a directory when it ends in '/' or exists")
      ->required()
      ->expected(2, -1);
  app.add_flag_callback(
      "-r,--recursive",
      [this] {
        options_.trees = std::max(options_.trees, Trees::without_links);
        selection_.recursive();
      },
      "send or fetch directories with what lies in them; DIR/ means only what lies in it; symbolic links are left out");
  app.add_flag_callback(
      "-a,--archive",
      [this] {
        options_.trees = Trees::with_links;
        selection_.archive();
      },
      "as -r, and symbolic links as links, with -o and -g");
  app.add_flag("-H,--hard-links", options_.select.hard_links, "files that are one file under several names stay one");
  add_update_options(app, options_.update, options_.select);
  add_change_options(app, options_);
  selection_.add_to(app);
  auto* rate = app.add_option("--rate", options_.rate_mbit,
                              "send at so many Mbit/s, whatever the network does; ends when a third is lost for 10 s")
                   ->check(positive_number());
  auto* congestion = app.add_option_function<std::string>(
                            "--congestion", [this](const std::string& name) { options_.cubic = name == "cubic"; },
                            "congestion control: bbr (the default) or cubic")
                         ->check(CLI::IsMember({"bbr", "cubic"}))
                         ->excludes(rate);
  app.add_flag("--background", options_.background, "give way to all other traffic")
      ->excludes(rate)
      ->excludes(congestion);
  auto* compress = app.add_flag_callback(
      "-z,--compress", [this] { options_.compress = Compress::when_it_pays; },
      "compress what is sent, where that makes it faster; tells who sees the datagrams how well it compresses");
  app.add_flag_callback(
         "--compress-always", [this] { options_.compress = Compress::always; },
         "compress whether it pays or not; for measurements")
      ->excludes(compress);
  app.add_option(
      "--datagram-bytes", options_.datagram_bytes,
      "the largest UDP payload; default: what the path carries, up to frames of 9000; with --stack: of 1500");
  add_ssh_options(app, options_.ssh);
  add_trust_options(app, options_.trust);
  add_common_options(app, options_);
  add_file_options(app, options_, options_.insecure);
}

std::expected<PushOptions, Failure> TransferArguments::options() const {
  PushOptions options = options_;
  options.destination = operands_.back();
  options.sources.assign(operands_.begin(), operands_.end() - 1);
  if (const auto put = selection_.put(options); !put) {
    return std::unexpected(Failure{ExitCode::usage, put.error()});
  }
  return options;
}

}  // namespace sluice::ftx
