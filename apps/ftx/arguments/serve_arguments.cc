// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/arguments/serve_arguments.h"

#include "apps/ftx/arguments/option_groups.h"
#include "apps/ftx/jobs/url.h"

namespace sluice::ftx {

void add_serve_options(CLI::App& app, ServeOptions& options) {
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
  app.add_flag("--xattrs", options.attributes, "clients may send extended attributes (user.*)");
  app.add_flag(
      "--owners", options.owners,
      "what clients send gets the owners that they say, as far as this process may set them, and they are told "
      "those of what they fetch");
  app.add_option("--quota", options.quota_bytes, "take and send so many bytes of files in all; units: K, M, G, T")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--transfer-max", options.transfer_bytes_max, "take and send no transfer of more bytes than so many")
      ->transform(CLI::AsSizeValue(false));
  app.add_option(
      "--quota-entries", options.quota_entries,
      "let clients make so many files, directories and links in all; without it one for each 4 KiB of --quota");
  app.add_option("--transfer-max-entries", options.transfer_entries_max,
                 "take no transfer of more files, directories and links; without it one for each 4 KiB of "
                 "--transfer-max");
  add_common_options(app, options);
  add_file_options(app, options, options.insecure);
}

}  // namespace sluice::ftx
