// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/arguments/option_groups.h"

#include <cmath>

#include "apps/ftx/jobs/url.h"

namespace sluice::ftx {

CLI::Validator positive_number() {
  return {[](const std::string& text) {
            double number = 0;
            const bool positive = CLI::detail::lexical_cast(text, number) && number > 0 && std::isfinite(number);
            return positive ? "" : "expected a number above 0, found '" + text + "'";
          },
          "POSITIVE"};
}

void add_common_options(CLI::App& app, CommonOptions& options) {
  app.add_option("--stack", options.stack_file, "stack file; without it: kernel UDP, which needs no privileges");
  app.add_option("--name", options.stack_name, "the stack's name; not needed when the file declares one");
  app.add_option_function<std::string>(
         "--mode", [&options](const std::string& name) { options.mode = sluice::mode_named(name); },
         "layered: every module makes its own pass; fused: one pass; default: as the stack file says, else fused")
      ->check(CLI::IsMember({"layered", "fused"}));
  app.add_option("--idle-timeout", options.idle_timeout_s, "give up after so many seconds without progress")
      ->check(positive_number())
      ->capture_default_str();
}

/// Of commands that move files.
void add_file_options(CLI::App& app, CommonOptions& options, bool& insecure) {
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
      ->check(positive_number())
      ->capture_default_str();
}

void add_trust_options(CLI::App& app, TrustOptions& options) {
  add_key_option(app, options);
  add_secret_option(app, options);
  app.add_option("--known-hosts", options.known_hosts_file,
                 "the keys of servers, for ftx://; default: ~/.config/ftx/known_hosts");
  app.add_option("--accept-key", options.accept_key,
                 "the key of a server that is not known yet, for ftx://, as ftx key prints it there");
}

}  // namespace sluice::ftx
