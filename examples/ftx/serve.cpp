// SPDX-License-Identifier: Apache-2.0
// serve DIR SECRET-FILE: takes one transfer into a directory from whoever has the secret, and says what came.
#include <ftx.hpp>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: serve DIR SECRET-FILE\n";
    return 2;
  }
  try {
    ftx::Job job(ftx::Job::Kind::serve);
    job.set("listen", "127.0.0.1").set("port", "0").set("once").set("secret-file", argv[2]).add(argv[1]);
    job.watch_files().on_event([](const ftx::Event& event) {
      if (event.kind == FTX_LISTENING) {
        std::cout << "listening on " << event.path << std::endl;
      } else if (event.kind == FTX_FILE) {
        std::cout << "comes: " << event.path << std::endl;
      }
    });
    const ftx::Outcome outcome = job.run();
    if (!outcome) {
      std::cerr << "serve: " << outcome.text << '\n';
    }
    return outcome.code;
  } catch (const std::exception& exception) {
    std::cerr << "serve: " << exception.what() << '\n';
    return 1;
  }
}
