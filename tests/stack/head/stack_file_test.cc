// SPDX-License-Identifier: Apache-2.0

#include "stack/head/stack_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>

#include "stack/head/escaped.h"
#include "tests/stack/head/fake_registry.h"

namespace sluice::test {
namespace {

const Registry& registry() {
  static const Registry filled = fake_registry();
  return filled;
}

Result<StackFile> parse(std::string_view text) { return StackFile::parse(text, "f.toml", registry()); }

/// What parse() finds wrong; empty when it finds nothing.
std::string faults_of(std::string_view text) {
  const auto file = parse(text);
  EXPECT_TRUE(file || file.error().code == EINVAL);
  return file ? "" : file.error().text;
}

// ---- Files that are wrong, and what is said of them, word for word ----

struct BadFile {
  std::string_view what;
  struct {
    std::string text;
    std::string faults;
  } file;
};

constexpr std::string_view known_drivers = R"((expected one of "kernel", "packet"))";
constexpr std::string_view known_modules = R"((expected one of "ip", "tap", "timod", "udp"))";

std::vector<BadFile> bad_files() {
  const auto with = [](std::string text, std::string_view known) { return text + " " + std::string(known); };
  const std::string veth = "driver = {kind = \"packet\", device = \"veth0\"}\n";
  return {
      {"nothing", {"", "f.toml:1: stack: expected at least one table [stack.NAME]"}},
      {"no stack", {"[autopush]\n", "f.toml:1: stack: expected at least one table [stack.NAME]"}},
      {"stack is no table", {"\nstack = 5", "f.toml:2: stack: expected at least one table [stack.NAME]"}},
      {"a stack is no table", {"[stack]\na = 5", "f.toml:2: stack.a: expected a table, found an integer"}},
      {"unknown key of the file",
       {"stacks = 1\n[stack.a]\n" + veth,
        "f.toml:1: stacks: there is no key \"stacks\"; did you mean \"stack\"? (expected one of \"stack\", "
        "\"autopush\")"}},
      {"stack without driver",
       {"[stack.a]\npush = []\n",
        "f.toml:1: stack.a.driver: expected a table that names a driver, such as { kind = \"packet\", device = "
        "\"veth0\" }"}},
      {"driver is no table",
       {"[stack.a]\ndriver = \"packet\"\n",
        "f.toml:2: stack.a.driver: expected a table that names a driver, such as { kind = \"packet\", device = "
        "\"veth0\" }"}},
      {"driver without kind",
       {"[stack.a]\ndriver = {device = \"veth0\"}\n",
        "f.toml:2: stack.a.driver: expected a table that names a driver, such as { kind = \"packet\", device = "
        "\"veth0\" }"}},
      {"unknown driver",
       {"[stack.a]\ndriver = {kind = \"paket\"}\n",
        with("f.toml:2: stack.a.driver.kind: there is no driver \"paket\"; did you mean \"packet\"?", known_drivers)}},
      {"unlike any driver",
       {"[stack.a]\ndriver = {kind = \"ethernet\"}\n",
        with("f.toml:2: stack.a.driver.kind: there is no driver \"ethernet\"", known_drivers)}},
      {"a module as driver",
       {"[stack.a]\ndriver = {kind = \"ip\"}\n",
        "f.toml:2: stack.a.driver.kind: \"ip\" is a module, and a driver is expected here"}},
      {"a driver as module",
       {"[stack.a]\n" + veth + "push = [\"kernel\"]\n",
        "f.toml:3: stack.a.push: \"kernel\" is a driver, and a module is expected here"}},
      {"unknown module",
       {"[stack.a]\n" + veth + "push = [\n  \"ip\",\n  \"upd\"]\n",
        with("f.toml:5: stack.a.push: there is no module \"upd\"; did you mean \"udp\"?", known_modules)}},
      {"module without a name",
       {"[stack.a]\n" + veth + "push = [\"\", \":low\"]\n",
        with("f.toml:3: stack.a.push: there is no module \"\"", known_modules) + "\n" +
            with("f.toml:3: stack.a.push: there is no module \"\"", known_modules)}},
      {"push is no list",
       {"[stack.a]\n" + veth + "push = \"ip\"\n", "f.toml:3: stack.a.push: expected a list of modules, found a text"}},
      {"push of no name",
       {"[stack.a]\n" + veth + "push = [\"ip\", 5, true, 1.5, [], {}, 1979-05-27]\n",
        "f.toml:3: stack.a.push: expected the name of a module, found an integer\n"
        "f.toml:3: stack.a.push: expected the name of a module, found true or false\n"
        "f.toml:3: stack.a.push: expected the name of a module, found a real number\n"
        "f.toml:3: stack.a.push: expected the name of a module, found a list\n"
        "f.toml:3: stack.a.push: expected the name of a module, found a table\n"
        "f.toml:3: stack.a.push: expected the name of a module, found a date or time"}},
      {"pushed twice",
       {"[stack.a]\n" + veth + "push = [\"tap\", \"ip\", \"tap\"]\n",
        "f.toml:3: stack.a.push: \"tap\" is pushed twice; give each a name of its own, such as \"tap:low\""}},
      {"misspelled mode",
       {"[stack.a]\nmode = \"fuse\"\n" + veth,
        "f.toml:2: stack.a.mode: expected \"layered\" or \"fused\"; did you mean \"fused\"?"}},
      {"unknown mode",
       {"[stack.a]\nmode = \"layerd\"\n" + veth,
        "f.toml:2: stack.a.mode: expected \"layered\" or \"fused\"; did you mean \"layered\"?"}},
      {"mode is no text",
       {"[stack.a]\nmode = 1\n" + veth, "f.toml:2: stack.a.mode: expected \"layered\" or \"fused\""}},
      {"missing parameter",
       {"[stack.a]\ndriver = {kind = \"packet\"}\n",
        "f.toml:2: stack.a.driver.device: \"packet\" needs this parameter: the name of a network device"}},
      {"unknown parameter",
       {"[stack.a]\ndriver = {kind = \"packet\", device = \"veth0\", rign = 5}\n",
        "f.toml:2: stack.a.driver.rign: there is no parameter \"rign\"; did you mean \"ring\"? (expected one of "
        "\"device\", "
        "\"ring\", \"blocking\", \"fails\", \"opens\")"}},
      {"parameter of a module without any",
       {"[stack.a]\ndriver = {kind = \"kernel\"}\npush = [\"timod\"]\ntimod = {x = 1}\n",
        "f.toml:4: stack.a.timod.x: there is no parameter \"x\""}},
      {"integer expected",
       {"[stack.a]\ndriver = {kind = \"packet\", device = \"veth0\", ring = \"5\"}\n",
        "f.toml:2: stack.a.driver.ring: expected an integer, found a text"}},
      {"truth expected",
       {"[stack.a]\ndriver = {kind = \"packet\", device = \"veth0\", blocking = 1}\n",
        "f.toml:2: stack.a.driver.blocking: expected true or false, found an integer"}},
      {"text expected",
       {"[stack.a]\ndriver = {kind = \"packet\", device = [\"veth0\"]}\n",
        "f.toml:2: stack.a.driver.device: expected a text, found a list"}},
      {"out of range",
       {"[stack.a]\ndriver = {kind = \"packet\", device = \"veth0\", ring = 0}\n",
        "f.toml:2: stack.a.driver.ring: expected 1 .. 4096, found 0"}},
      {"out of range, exactly",
       {"[stack.a]\ndriver = {kind = \"packet\", device = \"veth0\", ring = 9223372036854775807}\n",
        "f.toml:2: stack.a.driver.ring: expected 1 .. 4096, found 9223372036854775807"}},
      {"below a range without end",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\n[stack.a.ip]\nmtu = 67\n",
        "f.toml:5: stack.a.ip.mtu: expected at least 68, found 67"}},
      {"not a number",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\n[stack.a.ip]\nloss = nan\n",
        "f.toml:5: stack.a.ip.loss: expected 0 .. 1, found nan"}},
      {"infinite",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\n[stack.a.ip]\nloss = inf\n",
        "f.toml:5: stack.a.ip.loss: expected 0 .. 1, found inf"}},
      {"number expected",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\nip = {loss = \"1\"}\n",
        "f.toml:4: stack.a.ip.loss: expected a number, found a text"}},
      {"texts expected",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\nip = {address = [\"a\", 5]}\n",
        "f.toml:4: stack.a.ip.address: expected a text or a list of texts, found a list"}},
      {"not one of the choices",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\nip = {mode = \"ruoter\"}\n",
        "f.toml:4: stack.a.ip.mode: expected one of \"host\", \"router\", found \"ruoter\"; did you mean \"router\"?"}},
      {"a list with one that is not",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\nip = {roles = [\"a\", \"x\"]}\n",
        "f.toml:4: stack.a.ip.roles: expected one of \"a\", \"b\", found \"x\"; did you mean \"a\"?"}},
      {"parameters of a module that is not pushed",
       {"[stack.a]\n" + veth + "ip = {}\n", "f.toml:3: stack.a.ip: parameters for \"ip\", which `push` does not name"}},
      {"parameters of another instance",
       {"[stack.a]\n" + veth + "push = [\"tap:low\"]\n\"tap:high\" = {}\n",
        "f.toml:4: stack.a.tap:high: parameters for \"tap:high\", which `push` does not name"}},
      {"parameters are no table",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\nip = 5\n",
        "f.toml:4: stack.a.ip: expected a table of parameters, found an integer"}},
      {"unknown key of a stack",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\npsuh = []\n",
        "f.toml:4: stack.a.psuh: there is no key \"psuh\"; did you mean \"push\"? (expected one of \"mode\", \"path\", "
        "\"driver\", "
        "\"push\", \"host\", \"ip\")"}},
      {"host is no truth value",
       {"[stack.a]\n" + veth + "push = [\"ip\"]\nhost = 1\n",
        "f.toml:4: stack.a.host: expected true or false, found an integer"}},
      {"a host that nothing answers for",
       {"[stack.a]\n" + veth + "host = true\n", "f.toml:3: stack.a.host: expected \"ip\" in push, which answers"}},
      {"service is missing",
       {"[stack.a]\n" + veth + "push = [\"ip\",\n \"timod\"]\n",
        "f.toml:4: stack.a.push: 'timod' needs the TPI transport service below it, but 'ip' offers the TPI network "
        "service; "
        "push \"udp\" between them"}},
      {"two services are missing",
       {"[stack.a]\n" + veth + "push = [\"timod\"]\n",
        "f.toml:3: stack.a.push: 'timod' needs the TPI transport service below it, but 'packet' offers the DLPI link "
        "service; push \"ip\", \"udp\" between them"}},
      {"upside down",
       {"[stack.a]\ndriver = {kind = \"kernel\"}\npush = [\"timod\", \"ip\"]\n",
        "f.toml:3: stack.a.push: 'ip' needs the DLPI link service below it, but 'timod' offers the user service; "
        "nothing "
        "that can be pushed leads there"}},
      {"through a transparent module",
       {"[stack.a]\n" + veth + "push = [\"tap\", \"udp\"]\n",
        "f.toml:3: stack.a.push: 'udp' needs the TPI network service below it, but 'packet' offers the DLPI link "
        "service; "
        "push \"ip\" between them"}},
      {"autopush is no table",
       {"autopush = 1\n[stack.a]\n" + veth,
        "f.toml:1: autopush: expected a table of lists, one for each kind of driver"}},
      {"autopush on an unknown driver",
       {"[autopush]\npackt = []\n[stack.a]\n" + veth,
        with("f.toml:2: autopush.packt: there is no driver \"packt\"; did you mean \"packet\"?", known_drivers)}},
      {"autopush that no stack uses",
       {"[autopush]\nkernel = [\"timdo\"]\n[stack.a]\n" + veth,
        with("f.toml:2: autopush.kernel: there is no module \"timdo\"; did you mean \"timod\"?", known_modules)}},
      {"autopush that two stacks use is wrong once",
       {"[autopush]\npacket = 5\n[stack.a]\n" + veth + "[stack.b]\n" + veth,
        "f.toml:2: autopush.packet: expected a list of modules, found an integer"}},
      {"pushed by hand, too",
       {"[autopush]\npacket = [\"tap\"]\n[stack.a]\n" + veth + "push = [\"tap\"]\n",
        "f.toml:5: stack.a.push: \"tap\" is pushed twice; give each a name of its own, such as \"tap:low\""}},
      {"autopush does not fit",
       {"[autopush]\npacket = [\"udp\"]\n[stack.a]\n" + veth,
        "f.toml:2: stack.a.push: 'udp' needs the TPI network service below it, but 'packet' offers the DLPI link "
        "service; "
        "push \"ip\" between them"}},
  };
}

TEST(StackFile, EveryFaultIsNamed) {
  for (const auto& [what, file] : bad_files()) {
    EXPECT_EQ(faults_of(file.text), file.faults) << what << ":\n" << file.text;
  }
}

TEST(StackFile, AllFaultsAreReportedInOnePass) {
  const std::string faults = faults_of(R"(colour = "red"
[autopush]
kernel = ["nothing"]
[stack.one]
path = "fuzed"
driver = { kind = "packet", ring = 0, rings = 1 }
push = ["ip", "upd"]
ip = { mtu = 1 }
[stack.two]
driver = { kind = "kernl" }
)");
  EXPECT_EQ(faults,
            R"(f.toml:1: colour: there is no key "colour" (expected one of "stack", "autopush")
f.toml:3: autopush.kernel: there is no module "nothing" (expected one of "ip", "tap", "timod", "udp")
f.toml:5: stack.one.path: expected "layered" or "fused"; did you mean "fused"?
f.toml:6: stack.one.driver.device: "packet" needs this parameter: the name of a network device
f.toml:6: stack.one.driver.ring: expected 1 .. 4096, found 0
f.toml:6: stack.one.driver.rings: there is no parameter "rings"; did you mean "ring"? (expected one of "device", "ring", "blocking", "fails", "opens")
f.toml:7: stack.one.push: there is no module "upd"; did you mean "udp"? (expected one of "ip", "tap", "timod", "udp")
f.toml:8: stack.one.ip.mtu: expected at least 68, found 1
f.toml:10: stack.two.driver.kind: there is no driver "kernl"; did you mean "kernel"? (expected one of "kernel", "packet"))");
}

TEST(StackFile, SyntaxErrorsHaveTheirLine) {
  for (const std::string_view text :
       {"[stack.a]\ndriver = {", "\n= 5", "x\ny", "[stack.a]\n[stack.a]\n", "a = \"\xff\"\n"}) {
    const std::string fault = faults_of(text);
    EXPECT_TRUE(fault.starts_with("f.toml:1: syntax: ") || fault.starts_with("f.toml:2: syntax: ")) << fault;
    EXPECT_EQ(fault.find('\n'), std::string::npos) << fault;
  }
}

// ---- Files that mean harm ----

bool has_controls(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool c1 = byte == 0xc2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
    if ((byte < 0x20 && byte != '\n') || byte == 0x7f || c1) {
      return true;
    }
  }
  return false;
}

// Names are printed where they are wrong; a terminal must not obey them.
TEST(StackFile, ControlCharactersDoNotReachATerminal) {
  const std::string evil = R"("\u001b[2J\u009b1m\u007f\r\nf.toml:1: all is well")";
  for (const std::string& text :
       {evil + " = 1\n", "[stack." + evil + "]\n", "[stack." + evil + "]\nmode = 1\n",
        "[autopush]\n" + evil + " = []\n", "[stack.a]\ndriver = {kind = " + evil + "}\n",
        "[stack.a]\ndriver = {kind = \"packet\", " + evil + " = 1}\n",
        "[stack.a]\ndriver = {kind = \"kernel\"}\npush = [" + evil + ", " + evil + "]\n",
        "[stack.a]\ndriver = {kind = \"kernel\"}\n" + evil + " = 1\n",
        "[stack.a]\ndriver = {kind = \"packet\", device = \"x\"}\npush = [\"ip\"]\nip = {mode = " + evil + "}\n"}) {
    const std::string faults = faults_of(text);
    EXPECT_FALSE(faults.empty());
    EXPECT_FALSE(has_controls(faults)) << faults;
    EXPECT_EQ(faults.find("\nf.toml:1: all is well"), std::string::npos) << faults;
  }
  // Raw, they are not TOML at all.
  EXPECT_FALSE(has_controls(faults_of("\x1b[2J = 1")));
  const auto file = StackFile::parse("x", "\x1b[2J.toml", registry());
  EXPECT_TRUE(file.error().text.starts_with("\\x1b[2J.toml:1: syntax: ")) << file.error().text;
}

TEST(StackFile, ControlCharactersDoNotComeOutOfFindAndOpen) {
  const auto file =
      parse("[stack.\"\\u001b[2J\"]\ndriver = {kind = \"packet\", device = \"x\", fails = \"\\u001b[2J\"}\n");
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_FALSE(has_controls(file->find("other").error().text));
  EXPECT_FALSE(has_controls(file->find("\x1b[2K").error().text));
  StreamSet set;
  const auto opened = open_stack(set, file->stacks().front());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().text, "stack '\\x1b[2J': packet: \\x1b[2J");
}

TEST(Escaped, Table) {
  EXPECT_EQ(escaped("plain \\ text"), "plain \\ text");
  EXPECT_EQ(escaped("a\nb\tc\rd\x1b\x7f"), "a\\nb\\tc\\rd\\x1b\\x7f");
  EXPECT_EQ(escaped(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(escaped("\xc2\x9b\xc2\xa0\xc3\x9b"), "\\x9b\xc2\xa0\xc3\x9b");
  EXPECT_EQ(escaped("abcdef", 6), "abcdef");
  EXPECT_EQ(escaped("abcdef", 5), "abcde...");
  EXPECT_EQ(escaped("abc\xe2\x82\xac", 5), "abc...");
  EXPECT_EQ(escaped("\xc2", 5), "\xc2");
}

TEST(StackFile, NamesAreBounded) {
  const std::string longest(StackFile::name_bytes_max, 'x');
  EXPECT_EQ(faults_of("[stack." + longest + "]\ndriver = {kind = \"kernel\"}\n"), "");
  EXPECT_EQ(faults_of("[stack." + longest + "x]\ndriver = {kind = \"kernel\"}\n"),
            "f.toml:1: stack: a name has at most 64 bytes");
  const std::string instance = "tap:" + longest.substr(4);
  EXPECT_EQ(faults_of("[stack.a]\ndriver = {kind = \"kernel\"}\npush = [\"" + instance + "\"]\n"), "");
  EXPECT_EQ(faults_of("[stack.a]\ndriver = {kind = \"kernel\"}\npush = [\"" + instance + "x\"]\n"),
            "f.toml:3: stack.a.push: a name has at most 64 bytes");
}

TEST(StackFile, ModulesAreBoundedAsOnAStream) {
  const auto stack_of = [](std::size_t modules) {
    std::string text = "[stack.a]\ndriver = {kind = \"kernel\"}\npush = [";
    for (std::size_t i = 0; i < modules; ++i) {
      text += "\"tap:" + std::to_string(i) + "\", ";
    }
    return text + "]\n";
  };
  EXPECT_EQ(faults_of(stack_of(Chain::modules_max - 1)), "");
  EXPECT_EQ(faults_of(stack_of(Chain::modules_max)), "f.toml:3: stack.a.push: a stream has at most 72 modules");
}

// A file of a megabyte can be wrong a hundred thousand times; neither the time nor the answer grows with it.
TEST(StackFile, FaultsAreBounded) {
  std::string text = "[stack.a]\ndriver = {kind = \"kernel\"}\n";
  for (int i = 0; i < 50'000; ++i) {
    text += "k" + std::to_string(i) + " = 1\n";
  }
  const std::string faults = faults_of(text);
  EXPECT_TRUE(faults.ends_with("\nf.toml: 49800 more faults are not shown")) << faults.substr(faults.size() - 100);
  EXPECT_EQ(std::ranges::count(faults, '\n'), static_cast<int>(StackFile::faults_max));
}

TEST(StackFile, LongWordsAreCut) {
  const std::string word(500'000, 'x');
  for (const std::string& text : {word + " = 1\n", "[stack.a]\ndriver = {kind = \"" + word + "\"}\n",
                                  "[stack.a]\ndriver = {kind = \"packet\", device = \"x\", \"" + word + "\" = 1}\n"}) {
    const std::string faults = faults_of(text);
    EXPECT_FALSE(faults.empty());
    EXPECT_LT(faults.size(), 10'000U);
  }
}

TEST(StackFile, TooLarge) {
  EXPECT_EQ(faults_of(std::string(StackFile::file_bytes_max + 1, '\n')),
            "f.toml:1: the file is larger than 1048576 bytes");
  EXPECT_EQ(faults_of(std::string(StackFile::file_bytes_max, '\n')),
            "f.toml:1: stack: expected at least one table [stack.NAME]");
}

// ---- Files that are right ----

TEST(StackFile, EverythingThatCanBeDeclared) {
  const auto file = parse(R"(
[stack.bulk]
mode   = "layered"
driver = { kind = "packet", device = "veth0", ring = 256, blocking = true }
push   = ["tap:low", "ip", "tap:high", "udp", "timod"]
ip     = { address = ["10.0.0.1/24", "fd00::1/64"], loss = 1, mtu = 1500, mode = "router", roles = "b" }
"tap:low" = { file = "low.pcapng" }

[stack.simple]
driver = { kind = "kernel" }
push   = ["timod"]
)");
  ASSERT_TRUE(file) << file.error().text;
  ASSERT_EQ(file->stacks().size(), 2U);
  const StackDeclaration& bulk = file->stacks()[0];
  EXPECT_EQ(bulk.name, "bulk");
  EXPECT_EQ(bulk.mode, ProcessingMode::layered);
  EXPECT_EQ(bulk.line, 2);
  EXPECT_EQ(bulk.driver.entry, registry().find("packet"));
  EXPECT_EQ(bulk.driver.parameters.text("device", ""), "veth0");
  EXPECT_EQ(bulk.driver.parameters.integer("ring", 0), 256);
  EXPECT_TRUE(bulk.driver.parameters.boolean("blocking", false));
  std::string pushed;
  for (const ModuleDeclaration& module : bulk.push) {
    pushed += module.instance + "=" + std::string(module.entry->name) + " ";
  }
  EXPECT_EQ(pushed, "tap:low=tap ip=ip tap:high=tap udp=udp timod=timod ");
  const Parameters& ip = bulk.push[1].parameters;
  EXPECT_EQ(ip.texts("address"), (std::vector<std::string>{"10.0.0.1/24", "fd00::1/64"}));
  EXPECT_EQ(ip.real("loss", 0), 1.0);
  EXPECT_EQ(ip.integer("mtu", 0), 1500);
  EXPECT_EQ(ip.text("mode", ""), "router");
  EXPECT_EQ(ip.texts("roles"), std::vector<std::string>{"b"});
  EXPECT_EQ(bulk.push[0].parameters.text("file", ""), "low.pcapng");
  EXPECT_FALSE(bulk.push[2].parameters.has("file"));
  EXPECT_EQ(file->stacks()[1].name, "simple");
}

/// The stream that answers for the host has the declared ip and udp, and nothing that writes files or that a program
/// speaks to. RFC 1122 section 3.2.2.6: "Every host MUST implement an ICMP Echo server function"; section 4.1.3.1: "UDP
/// SHOULD send an ICMP Port Unreachable message". So it is there unless the file says otherwise.
TEST(StackFile, AHostStreamHasIpAndUdpAlone) {
  const std::string veth = "driver = {kind = \"packet\", device = \"veth0\"}\n";
  const std::string push = "push = [\"tap\", \"ip\", \"tap:high\", \"udp\", \"timod\"]\n";
  const auto file = StackFile::parse("[stack.a]\n" + veth + push + "[stack.b]\nhost = true\n" + veth + push +
                                         "[stack.c]\nhost = false\n" + veth + push + "[stack.d]\n" + veth +
                                         "push = [\"tap\"]\n[stack.e]\nhost = false\n" + veth,
                                     "f.toml", registry());
  ASSERT_TRUE(file) << file.error().text;
  StreamSet set;
  const auto modules_of_host = [&](const StackDeclaration& stack) {
    const auto host = open_host(set, stack);
    EXPECT_TRUE(host) << host.error().text;
    std::string names;
    for (const auto& module :
         *host == nullptr ? std::span<const std::unique_ptr<Module>>() : (*host)->chain().modules()) {
      names += std::string(module->name()) + " ";
    }
    return names;
  };
  EXPECT_EQ(modules_of_host(file->stacks()[0]), "udp ip packet ");
  EXPECT_EQ(modules_of_host(file->stacks()[1]), "udp ip packet ");
  EXPECT_EQ(modules_of_host(file->stacks()[2]), "") << "the file says so";
  EXPECT_EQ(modules_of_host(file->stacks()[3]), "") << "nobody answers there";
  EXPECT_EQ(modules_of_host(file->stacks()[4]), "");
}

TEST(StackFile, StacksAreInTheOrderOfTheFile) {
  const auto file = parse("[stack.b]\ndriver = {kind = \"kernel\"}\n[stack.a]\ndriver = {kind = \"kernel\"}\n");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->stacks()[0].name, "b");
  EXPECT_EQ(file->stacks()[1].name, "a");
}

// What autopush names stands below what the stack pushes, and the stack gives its parameters.
TEST(StackFile, Autopush) {
  const auto file = parse(R"(
[autopush]
packet = ["tap", "ip"]
[stack.a]
driver = { kind = "packet", device = "veth0" }
push   = ["udp"]
ip     = { mtu = 1500 }
[stack.b]
driver = { kind = "packet", device = "veth1" }
[stack.c]
driver = { kind = "kernel" }
)");
  ASSERT_TRUE(file) << file.error().text;
  std::string pushed;
  for (const StackDeclaration& stack : file->stacks()) {
    for (const ModuleDeclaration& module : stack.push) {
      pushed += module.instance + " ";
    }
    pushed += "| ";
  }
  EXPECT_EQ(pushed, "tap ip udp | tap ip | | ");
  EXPECT_EQ(file->stacks()[0].push[1].parameters.integer("mtu", 0), 1500);
  EXPECT_FALSE(file->stacks()[1].push[1].parameters.has("mtu"));
}

TEST(StackFile, Find) {
  const auto one = parse("[stack.only]\ndriver = {kind = \"kernel\"}\n");
  EXPECT_EQ((*one->find(""))->name, "only");
  const auto two = parse("[stack.bulk]\ndriver = {kind = \"kernel\"}\n[stack.other]\ndriver = {kind = \"kernel\"}\n");
  EXPECT_EQ((*two->find("other"))->name, "other");
  const auto unnamed = two->find("");
  EXPECT_EQ(unnamed.error().code, EINVAL);
  EXPECT_EQ(unnamed.error().text, "f.toml declares several stacks; name one of \"bulk\", \"other\"");
  const auto misspelt = two->find("blk");
  EXPECT_EQ(misspelt.error().code, ENOENT);
  EXPECT_EQ(misspelt.error().text,
            "f.toml: there is no stack \"blk\"; did you mean \"bulk\"? (it declares \"bulk\", \"other\")");
}

// ---- Opening ----

TEST(OpenStack, TopIsWhatWasPushedLast) {
  const auto file =
      parse("[stack.a]\ndriver = {kind = \"packet\", device = \"x\"}\npush = [\"ip\", \"udp\", \"timod\"]\n");
  ASSERT_TRUE(file) << file.error().text;
  StreamSet set;
  const auto stream = open_stack(set, file->stacks().front());
  ASSERT_TRUE(stream) << stream.error().text;
  EXPECT_EQ((*stream)->list(), (std::vector<std::string_view>{"timod", "udp", "ip", "packet"}));
}

TEST(OpenStack, ErrorsNameStackAndModule) {
  struct Case {
    std::string_view declaration;
    int code;
    std::string_view text;
  };
  for (const Case& c : {
           Case{R"(driver = {kind = "packet", device = "x", fails = "no such device"})", ENODEV,
                "stack 'bulk': packet: no such device"},
           Case{R"(driver = {kind = "kernel", opens = "no"})", EACCES, "stack 'bulk': kernel: Permission denied"},
           Case{"driver = {kind = \"packet\", device = \"x\"}\npush = [\"ip:v4\"]\n\"ip:v4\" = {fails = \"bad "
                "address\"}",
                ENODEV, "stack 'bulk': ip:v4: bad address"},
           Case{"driver = {kind = \"packet\", device = \"x\"}\npush = [\"ip\"]\nip = {opens = \"no\"}", EACCES,
                "stack 'bulk': ip: Permission denied"},
       }) {
    const auto file = parse("[stack.bulk]\n" + std::string(c.declaration) + "\n");
    ASSERT_TRUE(file) << file.error().text;
    StreamSet set;
    const auto stream = open_stack(set, file->stacks().front());
    ASSERT_FALSE(stream) << c.declaration;
    EXPECT_EQ(stream.error().code, c.code);
    EXPECT_EQ(stream.error().text, c.text);
  }
}

// ---- Loading ----

class Load : public testing::Test {
 protected:
  Load() : folder_(testing::TempDir() + "stack_file_test." + std::to_string(::getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~Load() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::filesystem::path path(std::string_view name) const { return folder_ / name; }
  [[nodiscard]] std::filesystem::path written(std::string_view name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  static std::string fault_of(const std::filesystem::path& path, int code) {
    const auto file = StackFile::load(path, registry());
    EXPECT_FALSE(file);
    EXPECT_EQ(file ? 0 : file.error().code, code);
    return file ? "" : file.error().text;
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(Load, GoodFile) {
  const auto file = StackFile::load(written("good", "[stack.a]\ndriver = {kind = \"kernel\"}\n"), registry());
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->stacks().size(), 1U);
}

TEST_F(Load, FaultsNameThePath) {
  const auto bad = written("bad", "x = 1");
  EXPECT_TRUE(fault_of(bad, EINVAL).starts_with(bad.string() + ":1: x: there is no key"));
}

TEST_F(Load, Missing) {
  EXPECT_EQ(fault_of(path("none"), ENOENT),
            "cannot read the stack file " + path("none").string() + ": No such file or directory");
}

TEST_F(Load, Directory) {
  EXPECT_EQ(fault_of(path("."), EISDIR), "cannot read the stack file " + path(".").string() + ": Is a directory");
}

TEST_F(Load, Unreadable) {
  const auto closed = written("closed", "");
  std::filesystem::permissions(closed, std::filesystem::perms::none);
  // The superuser may read everything; for him a file that opens but does not read is /proc/self/mem at its first byte.
  const bool superuser = ::geteuid() == 0;
  EXPECT_EQ(fault_of(superuser ? "/proc/self/mem" : closed, superuser ? EIO : EACCES),
            "cannot read the stack file " +
                (superuser ? "/proc/self/mem: Input/output error" : closed.string() + ": Permission denied"));
}

TEST_F(Load, TooLarge) {
  EXPECT_EQ(fault_of("/dev/zero", EINVAL), "/dev/zero:1: the file is larger than 1048576 bytes");
}

}  // namespace
}  // namespace sluice::test
