// SPDX-License-Identifier: Apache-2.0
// A sender that lies to the real ftx over loopback: `ftx remote` where the session is sealed, `ftx serve` where it is
// not. One row, one lie, with the sentence of docs/formats/ftx.md that it breaks. Whatever it says, ftx ends in time
// with the code of the row, has taken little memory, and has written nothing but, where the row says so, the file.
#include <gtest/gtest.h>
#include <zstd.h>

#include <functional>
#include <set>

#include "apps/ftx/files/digest.h"
#include "apps/ftx/protocol/stream_end.h"
#include "tests/hostile/far_side.h"
#include "tests/hostile/liar.h"

namespace sluice::ftx::hostile {
namespace {

struct SenderLie {
  const char* name;
  const char* sentence;
  std::function<void(Liar&)> tell;
  std::set<ExitCode> ends;
  bool arrives = false;  // "a.bin" does all the same
  bool streams = false;  // the one entry is a stream that goes to "a.bin"
};

/// A manifest with one entry whose name or mode is changed behind the encoder's back.
void with_name(Liar& liar, std::string name) {
  liar.entries[0].name = std::move(name);
  liar.list = encode_manifest(liar.entries);
  liar.begin();
}

void change_offer(Liar& liar, const std::function<void(Offer&)>& change) {
  liar.greet();
  Offer message = liar.honest_offer();
  change(message);
  for (int i = 0; i < 3; ++i) {
    liar.offer(message);
    liar.manifest();
    liar.hear(Kind::report, 100ms);
  }
}

/// One ADU that breaks the rule, and then the truth.
void stray(Liar& liar, const AduName& adu, std::size_t payload_bytes) {
  if (liar.begin()) {
    liar.data(adu, Content(payload_bytes, std::byte{0x5a}));
    liar.finish();
  }
}

void stamped(Liar& liar, const Stamp& stamp) {
  if (liar.begin()) {
    liar.data({0, adu_bytes, 0}, ConstBytes(liar.contents[0]).first(adu_bytes), stamp);
    liar.finish();
  }
}

/// A manifest with one more entry.
void with_entry(Liar& liar, FileEntry entry) {
  liar.entries.push_back(std::move(entry));
  liar.contents.emplace_back();
  liar.list = encode_manifest(liar.entries);
  liar.begin();
}

/// One more entry, with an attribute that has another name than the encoder has checked, of the same length at most.
void with_attribute(Liar& liar, const std::string& name, std::string_view other) {
  const auto metadata = ExtendedAttributes::of({{name, "value"}}).value();
  liar.entries.push_back({.name = "x", .metadata = Shared<Metadata>({.attributes = metadata})});
  liar.contents.emplace_back();
  liar.list = encode_manifest(liar.entries);
  const auto at = std::ranges::search(liar.list, as_bytes(name));
  ASSERT_FALSE(at.empty());
  std::ranges::copy(as_bytes(other).first(std::min(other.size(), name.size())), at.begin());
  liar.begin();
}

/// The pack of `count` files of zeros in a directory that is not there, and of their list, which `spoil` may change,
/// the beginning: enough to be accepted where the session is sealed.
Content begin_tree(Liar& liar, std::size_t count, const std::function<void()>& spoil = {}) {
  constexpr std::size_t size = 100;
  liar.entries = {{.name = "tree", .kind = EntryKind::directory}};
  Content pack;
  for (std::size_t i = 0; i < count; ++i) {
    liar.entries.push_back(
        {.name = "f" + std::to_string(i), .size_bytes = size, .kind = EntryKind::packed, .parent = 1});
    const Content content(size);
    const Digest digest = digest_of(content);
    pack.insert(pack.end(), content.begin(), content.end());
    pack.insert(pack.end(), digest.begin(), digest.end());
  }
  liar.contents.assign(liar.entries.size(), {});
  if (spoil) {
    spoil();
  }
  liar.list = encode_manifest(liar.entries);
  liar.greet();
  for (int i = 0; i < 3; ++i) {
    liar.offer(liar.honest_offer());
    liar.data({manifest_file, adu_bytes, 0}, ConstBytes(liar.list).first(adu_bytes));
  }
  EXPECT_TRUE(!liar.sealed() || liar.until(Phase::data));
  return pack;
}

/// What a sender may send when it has been accepted by the beginning of its list, and then that as a whole.
void files_then_list(Liar& liar, const Content& pack) {
  for (int i = 0; i < 3 && liar.errors == 0; ++i) {
    liar.all_of(pack_file, pack);
    liar.manifest();
    liar.hear(Kind::error, 100ms);
  }
}

void end_stream(Liar& liar, std::uint64_t size) {
  liar.all_of(digest_file, encode_stream_end({file_digest_of(liar.contents[0]), size}));
}

/// All of a stream, and `size` for its end.
void stream_of(Liar& liar, std::uint64_t size) {
  if (!liar.begin()) {
    return;
  }
  for (int i = 0; i < 3 && liar.errors == 0; ++i) {
    liar.all_of(0, liar.contents[0]);
    end_stream(liar, size);
    if (liar.until(Phase::finished)) {
      return liar.control(emit_close(liar.envelope, liar.out));
    }
  }
}

Content frame_of(ConstBytes content) {
  Content frame(ZSTD_compressBound(content.size()));
  frame.resize(ZSTD_compress(frame.data(), frame.size(), content.data(), content.size(), 1));
  return frame;
}

/// One frame that breaks the rule, and then the truth.
void stray_frame(Liar& liar, const AduName& adu, ConstBytes frame) {
  if (liar.begin()) {
    liar.data(adu, frame, {}, 0, true);
    liar.finish();
  }
}

constexpr auto waits = ExitCode::interrupted;  // nothing has begun: it waits until somebody interrupts it
constexpr auto mismatch = ExitCode::digest_mismatch;

constexpr const char* rule_name =
    "A name is one path component: 1..255 bytes, not `.` or `..`, no `/`, no C0 or C1 control character, no DEL";
constexpr const char* rule_parent = "the place in the list, counted from 1, of a directory that comes before it";
constexpr const char* rule_hard_link =
    "`size` is the place in the list, counted from 1, of a file that comes before it";
constexpr const char* rule_extents =
    "ascending, with a hole between two of them, none empty, all within `size`, 65536 at most";
constexpr const char* rule_attributes = "Names begin with `user.`, hold no NUL and ascend";
constexpr const char* rule_size = "what travels of a file is less than 2^52 bytes";
constexpr const char* rule_place = "An ADU is `adu_bytes` long, lies at a multiple of `adu_bytes`";
constexpr const char* rule_drop =
    "An endpoint drops and counts a datagram that is too long, too short or out of range, and never answers it";
constexpr const char* rule_frame =
    "A receiver drops and counts a frame that is not exactly that: one of another size than `length`, or of none, with "
    "a "
    "dictionary, cut, malformed, or with something behind it";
constexpr const char* rule_digest =
    "It renames a file when all of it is there and its digest, computed over what was written, equals the sender's";
constexpr const char* rule_receiver_progress =
    "Either side gives up after 30 s without progress: the receiver when no payload landed where none was";
constexpr const char* rule_sequence =
    "Every DATA and PROBE has a sequence number of its own, from 1 up, never used twice";
constexpr const char* rule_announced = "Nothing is allocated for what is only announced";
constexpr const char* rule_early =
    "Nothing is made of it, and nothing but the one name is looked for, before the manifest is there, equals its "
    "digest and has been checked as a whole";
constexpr const char* rule_stream_alone = "7 is alone in its list";
constexpr const char* rule_stream_end =
    "A receiver fails (13) where the two contradict each other, or what has landed lies behind the end";

const std::vector<SenderLie>& sender_lies() {
  static const std::vector<SenderLie> table{
      {"TheTruth", "", [](Liar& liar) { EXPECT_TRUE(liar.begin() && liar.finish()); }, {ok}, true},

      // --- What it offers
      {"NameLeadsUp", rule_name, [](Liar& liar) { with_name(liar, "../outside"); }, {refused}},
      {"NameIsAbsolute", rule_name, [](Liar& liar) { with_name(liar, "/tmp/x"); }, {refused}},
      {"NameIsTwoDots", rule_name, [](Liar& liar) { with_name(liar, ".."); }, {refused}},
      {"NameIsADot", rule_name, [](Liar& liar) { with_name(liar, "."); }, {refused}},
      {"NameHasAnEscape", rule_name, [](Liar& liar) { with_name(liar, "a\x1b[2Jb"); }, {refused}},
      {"NameHasAnEnd", rule_name, [](Liar& liar) { with_name(liar, std::string("a\0b", 3)); }, {refused}},
      {"NameHasAC1",
       rule_name,
       [](Liar& liar) {
         with_name(liar,
                   "a\xc2\x9b"
                   "b");
       },
       {refused}},
      {"OneNameTwice",
       "no name comes twice in one directory",
       [](Liar& liar) {
         liar.add("a.bin", Content(10));
         liar.begin();
       },
       {refused}},
      {"ModeOfASetuidProgram",
       "mode:u16 (0777 at most)",
       [](Liar& liar) {
         liar.list[5] = std::byte{0x08};  // the mode's first byte: 04000
         liar.begin();
       },
       {wrong, refused}},
      {"AFileInAFile", rule_parent, [](Liar& liar) { with_entry(liar, {.name = "x", .parent = 1}); }, {wrong, refused}},
      {"ADirectoryInItself",
       rule_parent,
       [](Liar& liar) { with_entry(liar, {.name = "x", .kind = EntryKind::directory, .parent = 2}); },
       {wrong, refused}},
      {"AFileInWhatIsNotThere",
       rule_parent,
       [](Liar& liar) { with_entry(liar, {.name = "x", .parent = 1000}); },
       {wrong, refused}},
      {"ADirectoryThatLeadsUp",
       rule_name,
       [](Liar& liar) { with_entry(liar, {.name = "..", .kind = EntryKind::directory}); },
       {refused}},
      {"ALinkThatLeadsOut",
       "It makes directories as they are needed, and when all files are in place the links",
       [](Liar& liar) { with_entry(liar, {.name = "x", .kind = EntryKind::link, .form = "/etc"}); },
       {refused, timed_out}},  // the user's own far side takes links, but no file comes
      {"ADirectoryWithADigest",
       "only where `kind` has bit 7: of a file (2, 3)",
       [](Liar& liar) { with_entry(liar, {.name = "x", .kind = EntryKind::directory, .digest = Digest{}}); },
       {wrong}},
      {"APackedFileWithExtents",
       rule_extents,
       [](Liar& liar) { with_entry(liar, {.name = "x", .kind = EntryKind::packed, .form = Extents({})}); },
       {wrong}},
      {"ExtentsBehindTheEnd",
       rule_extents,
       [](Liar& liar) {
         with_entry(liar, {.name = "x", .size_bytes = 10, .form = Extents(std::vector<ByteRange>{{0, 11}})});
       },
       {wrong}},
      {"ExtentsThatOverlap",
       rule_extents,
       [](Liar& liar) {
         with_entry(liar, {.name = "x", .size_bytes = 10, .form = Extents(std::vector<ByteRange>{{0, 5}, {4, 6}})});
       },
       {wrong}},
      {"AnAttributeOfThePowersOfPrograms",
       rule_attributes,
       [](Liar& liar) { with_attribute(liar, "user.apability", "security.cap"); },
       {wrong}},
      {"AnAttributeOfTheSuperuser",
       rule_attributes,
       [](Liar& liar) { with_attribute(liar, "user.overlay", "trusted.over"); },
       {wrong}},
      {"AnAttributeWithoutAName",
       rule_attributes,
       [](Liar& liar) { with_attribute(liar, "user.a", std::string_view("user.\0", 6)); },
       {wrong}},
      {"AttributesThatNobodyAskedFor",
       "Attributes are taken where they were asked for",
       [](Liar& liar) { with_attribute(liar, "user.a", "user.b"); },
       {refused, timed_out}},  // the user's own far side takes them, but no file comes
      {"AnOwnerThatIsNone",
       "id: 2^32 - 2 at most",
       [](Liar& liar) {
         with_entry(liar, {.name = "x", .metadata = Shared<Metadata>({.user = Principal{UINT32_MAX, ""}})});
       },
       {wrong}},
      {"AnOwnerWhoClearsTheTerminal",
       "name: no C0 or C1 control character, no DEL",
       [](Liar& liar) {
         with_entry(liar, {.name = "x", .metadata = Shared<Metadata>({.group = Principal{7, "a\x1b[2J"}})});
       },
       {wrong}},
      {"ADigestOfAnotherContent",
       "what arrives is held against the digests of the digest stream and of the pack",
       [](Liar& liar) {
         liar.entries[0].digest = Digest{};
         liar.list = encode_manifest(liar.entries);
         if (liar.begin()) {
           liar.finish();
         }
       },
       {ExitCode::ok, timed_out},
       true},
      {"FilesInADryRun",
       "the receiver opens nothing for writing, drops all data",
       [](Liar& liar) {
         liar.greet();
         Offer message = liar.honest_offer();
         message.update = {.told = true, .dry_run = true};
         for (int i = 0; i < 5 && liar.errors == 0; ++i) {
           liar.offer(message);
           liar.manifest();
           liar.all_of(0, liar.contents[0]);
           liar.digests();
           liar.hear(Kind::changes, 100ms);
         }
         liar.control(emit_noted(liar.envelope, 1, liar.out));
         liar.all_of(0, liar.contents[0]);
         liar.digests();
         liar.hear(Kind::report, 100ms);
         liar.control(emit_close(liar.envelope, liar.out));
       },
       {ok, refused, timed_out}},  // who does not encrypt tells nobody
      {"ADryRunOfWhichNothingIsTold",
       "bit 6, only with bit 5",
       [](Liar& liar) { change_offer(liar, [](Offer& offer) { offer.update = {.dry_run = true}; }); },
       {timed_out, waits}},
      {"NotesWhatItWasNotTold",
       "The receiver repeats what is not noted",
       [](Liar& liar) {
         change_offer(liar, [](Offer& offer) { offer.update = {.told = true}; });
         liar.control(emit_noted(liar.envelope, 1'000'000, liar.out));
         liar.finish();
       },
       {refused, timed_out}},
      {"ALinkOverAFile",
       "no name comes twice in one directory",
       [](Liar& liar) { with_entry(liar, {.name = "a.bin", .kind = EntryKind::link, .form = "/etc"}); },
       {refused}},
      {"AHardLinkToItself",
       rule_hard_link,
       [](Liar& liar) { with_entry(liar, {.name = "x", .kind = EntryKind::hard_link, .original = 2}); },
       {wrong}},
      {"AHardLinkToNothing",
       rule_hard_link,
       [](Liar& liar) { with_entry(liar, {.name = "x", .kind = EntryKind::hard_link}); },
       {wrong}},
      {"AHardLinkToAFileBehindIt",
       rule_hard_link,
       [](Liar& liar) {
         liar.entries.push_back({.name = "x", .kind = EntryKind::hard_link, .original = 3});
         with_entry(liar, {.name = "y"});
       },
       {wrong}},
      {"AHardLinkToADirectory",
       rule_hard_link,
       [](Liar& liar) {
         liar.entries.push_back({.name = "y", .kind = EntryKind::directory});
         with_entry(liar, {.name = "x", .kind = EntryKind::hard_link, .original = 2});
       },
       {wrong}},
      {"AHardLinkToALinkThatLeadsOut",
       rule_hard_link,
       [](Liar& liar) {
         liar.entries.push_back({.name = "y", .kind = EntryKind::link, .form = "/etc/passwd"});
         with_entry(liar, {.name = "x", .kind = EntryKind::hard_link, .original = 2});
       },
       {wrong}},
      {"AHardLinkToAHardLink",
       rule_hard_link,
       [](Liar& liar) {
         liar.entries.push_back({.name = "y", .kind = EntryKind::hard_link, .original = 1});
         with_entry(liar, {.name = "x", .kind = EntryKind::hard_link, .original = 2});
       },
       {wrong}},
      {"AHardLinkOverItsFile",
       "no name comes twice in one directory",
       [](Liar& liar) { with_entry(liar, {.name = "a.bin", .kind = EntryKind::hard_link, .original = 1}); },
       {refused}},
      {"APackedFileThatIsTooLarge",
       "packed file (size 65536 at most)",
       [](Liar& liar) {
         with_entry(liar, {.name = "x", .size_bytes = packed_bytes_max + 1, .kind = EntryKind::packed});
       },
       {wrong, refused}},
      {"APackThatNeverComes",
       rule_receiver_progress,
       [](Liar& liar) {
         with_entry(liar, {.name = "x", .size_bytes = 100, .kind = EntryKind::packed});
         liar.finish();
       },
       {timed_out}},
      {"ManifestOfAnotherDigest",
       "entry* and manifest_digest[16]",
       [](Liar& liar) { change_offer(liar, [](Offer& o) { o.manifest_digest[3] ^= std::byte{1}; }); },
       {wrong, mismatch, refused}},
      {"MoreFilesThanEntries",
       "an OFFER whose `manifest_bytes` cannot hold `files` entries is malformed",
       [](Liar& liar) { change_offer(liar, [](Offer& o) { o.files = 1000; }); },
       {waits}},
      {"TwoFilesInAListOfOne",
       "manifest := entry*",
       [](Liar& liar) {
         liar.entries[0].name = std::string(200, 'a');
         liar.list = encode_manifest(liar.entries);
         change_offer(liar, [](Offer& o) { o.files = 2; });
       },
       {wrong, refused}},
      {"AsksForRemovals",
       "Who serves a directory allows that or refuses such a list",
       [](Liar& liar) {
         const Deletion everything{.empty_sources = true};
         liar.list = encode_manifest(liar.entries, &everything);
         change_offer(liar, [](Offer&) {});
       },
       {refused, timed_out}},  // `ftx remote` allows it, and nothing arrives
      {"TotalOfOtherFiles",
       "total_bytes:u64",
       [](Liar& liar) { change_offer(liar, [](Offer& o) { ++o.total_bytes; }); },
       {wrong, refused}},
      {"FileOfAlmostTwoTo52",
       "disk space follows what is written",
       [](Liar& liar) {
         liar.entries[0].size_bytes = file_content_max - 1;
         liar.list = encode_manifest(liar.entries);
         if (liar.begin()) {
           liar.all_of(0, liar.contents[0]);
         }
       },
       {timed_out, refused, ExitCode::write_failed, ExitCode::disk_full}},
      {"FileOfTwoTo52",
       rule_size,
       [](Liar& liar) {
         liar.list[8] = std::byte{0x10};
         change_offer(liar, [](Offer&) {});
       },
       {wrong, refused}},
      {"FileBeyondTwoTo62",
       "Sizes are below 2^62",
       [](Liar& liar) {
         liar.list[7] = std::byte{0x40};
         change_offer(liar, [](Offer&) {});
       },
       {wrong, refused}},
      {"ListThatNeverComes",
       rule_announced,
       [](Liar& liar) {
         liar.greet();
         Offer message = liar.honest_offer();
         message.files = files_max;
         message.manifest_bytes = files_max * 281U;
         for (int i = 0; i < 3; ++i) {
           liar.offer(message);
           liar.manifest();
           liar.data({manifest_file, adu_bytes, 1'000'000 * adu_bytes}, Content(adu_bytes));
         }
       },
       {timed_out, refused}},
      {"AduBytesOfZero",
       "`adu_bytes` is a multiple of 16 in 256 .. 2 MiB",
       [](Liar& liar) { change_offer(liar, [](Offer& o) { o.adu_bytes = 0; }); },
       {waits}},
      {"AduBytesOddly",
       "`adu_bytes` is a multiple of 16 in 256 .. 2 MiB",
       [](Liar& liar) { change_offer(liar, [](Offer& o) { o.adu_bytes = 1025; }); },
       {waits}},
      {"AduBytesAboveTheTransport",
       "`adu_bytes` in COOKIE is the lesser of what both transports carry",
       [](Liar& liar) { change_offer(liar, [](Offer& o) { o.adu_bytes = 1 << 20; }); },
       {waits}},
      {"AnotherOfferInTheMiddle",
       "One connection carries one transfer",
       [](Liar& liar) {
         if (liar.begin()) {
           Offer second = liar.honest_offer();
           second.total_bytes = 1;
           second.files = 1;
           liar.offer(second);
           liar.finish();
         }
       },
       {ok},
       true},

      // --- Files before their list
      {"FilesAndThenANameTwice",
       rule_early,
       [](Liar& liar) {
         files_then_list(liar, begin_tree(liar, 200, [&] { liar.entries[150].name = liar.entries[3].name; }));
       },
       {refused}},
      {"FilesAndThenANameThatLeadsUp",
       rule_early,
       [](Liar& liar) { files_then_list(liar, begin_tree(liar, 200, [&] { liar.entries[150].name = "../outside"; })); },
       {refused}},
      {"FilesAndThenAFileInAFile",
       rule_early,
       [](Liar& liar) { files_then_list(liar, begin_tree(liar, 200, [&] { liar.entries[150].parent = 100; })); },
       {wrong}},
      {"FilesAndThenAnotherList",
       rule_early,
       [](Liar& liar) {
         const Content pack = begin_tree(liar, 200);
         liar.list.back() ^= std::byte{1};
         files_then_list(liar, pack);
       },
       {mismatch}},
      {"AFileThatIsInNoList",
       "what turns out to lie in no file of the manifest ends the transfer (13)",
       [](Liar& liar) {
         begin_tree(liar, 200, [&] {  // the content of a directory: none is made
           liar.entries[0].name = "";
           std::ranges::for_each(liar.entries, [](FileEntry& entry) { entry.parent = 0; });
         });
         liar.data({0, adu_bytes, 0}, Content(adu_bytes));
         liar.hear(Kind::report, 100ms);
         liar.manifest();
         liar.hear(Kind::error, 2s);
       },
       {wrong, timed_out}},  // who does not encrypt accepts nothing early, and drops it
      {"FilesWithoutEndAndNoList",
       "waits in the receiver's memory, 8 MiB of it at most",
       [](Liar& liar) {
         const Content pack = begin_tree(liar, 200);
         for (int i = 0; i < 2000 && liar.errors == 0; ++i) {
           liar.all_of(pack_file, ConstBytes(pack).first(8 * adu_bytes));
           liar.hear(Kind::error, i % 20 == 0 ? 2ms : 0ms);
         }
       },
       {timed_out}},

      // --- Where data goes
      {"DataBeforeTheOffer",
       "The session begins with OFFER",
       [](Liar& liar) {
         liar.greet();
         for (int i = 0; i < 20; ++i) {
           liar.data({0, adu_bytes, 0}, Content(adu_bytes));
         }
       },
       {waits}},
      {"DataBeyondTheEnd",
       rule_place,
       [](Liar& liar) { stray(liar, {0, adu_bytes, 1000 * adu_bytes}, adu_bytes); },
       {ok},
       true},
      {"DataAcrossTheEnd",
       rule_place,
       [](Liar& liar) { stray(liar, {0, adu_bytes, 9 * adu_bytes}, adu_bytes); },
       {ok},
       true},
      {"DataAtNoMultiple", rule_place, [](Liar& liar) { stray(liar, {0, adu_bytes, 112}, adu_bytes); }, {ok}, true},
      {"DataShortInTheMiddle", rule_place, [](Liar& liar) { stray(liar, {0, 100, adu_bytes}, 100); }, {ok}, true},
      {"DataOfNothing", rule_place, [](Liar& liar) { stray(liar, {0, 0, 0}, 0); }, {ok}, true},
      {"DataOfAnotherFile",
       "files, numbered from 0 in the order of the manifest",
       [](Liar& liar) { stray(liar, {1, adu_bytes, 0}, adu_bytes); },
       {ok},
       true},
      {"DataOfNoFile",
       "two lists travel as if they were files",
       [](Liar& liar) { stray(liar, {no_file, adu_bytes, 0}, adu_bytes); },
       {ok},
       true},
      {"DataAtAHugeOffset",
       rule_size,
       [](Liar& liar) { stray(liar, {0, adu_bytes, (file_content_max / adu_bytes - 1) * adu_bytes}, adu_bytes); },
       {ok},
       true},
      {"DigestsBeyondTheList",
       rule_place,
       [](Liar& liar) { stray(liar, {digest_file, adu_bytes, 50 * adu_bytes}, adu_bytes); },
       {ok},
       true},
      {"OneByteTooMany",
       rule_drop,
       [](Liar& liar) {
         if (liar.begin()) {
           // 1025 bytes end at no slot.
           liar.out.assign(70'000, std::byte{});
           Envelope here = liar.envelope;
           here.flags = liar.protection ? liar.protection->flags() : std::uint8_t{0};
           const std::size_t header = emit_data_header(here, {liar.next_stamp(), {0, adu_bytes, 0}, false}, liar.out);
           liar.raw(ConstBytes(liar.out).first(header + adu_bytes + 1 + (liar.sealed() ? tag_bytes : 0)));
           liar.finish();
         }
       },
       {ok},
       true},
      {"FrameOfMoreThanItsName",
       rule_frame,
       [](Liar& liar) { stray_frame(liar, {0, adu_bytes, 0}, frame_of(Content(adu_bytes + 1))); },
       {ok},
       true},
      {"FrameOfLessThanItsName",
       rule_frame,
       [](Liar& liar) { stray_frame(liar, {0, adu_bytes, 0}, frame_of(Content(adu_bytes - 1))); },
       {ok},
       true},
      {"FrameOf100Megabytes",
       rule_frame,
       [](Liar& liar) { stray_frame(liar, {0, adu_bytes, 0}, ConstBytes(frame_of(Content(100'000'000))).first(1000)); },
       {ok},
       true},
      {"FrameCut",
       rule_frame,
       [](Liar& liar) {
         const Content frame = frame_of(ConstBytes(liar.contents[0]).first(adu_bytes / 2));
         stray_frame(liar, {0, adu_bytes, 0}, ConstBytes(frame).first(frame.size() - 1));
       },
       {ok},
       true},
      {"FrameAndMore",
       rule_frame,
       [](Liar& liar) {
         Content frame = frame_of(Content(adu_bytes));
         frame.push_back({});
         stray_frame(liar, {0, adu_bytes, 0}, frame);
       },
       {ok},
       true},
      {"FrameOfGarbage",
       rule_frame,
       [](Liar& liar) { stray_frame(liar, {0, adu_bytes, 0}, random_content(500)); },
       {ok},
       true},
      {"FrameOfDigests",
       "Lists are never compressed",
       [](Liar& liar) { stray_frame(liar, {digest_file, digest_bytes, 0}, frame_of(Content(digest_bytes))); },
       {ok},
       true},
      {"FrameBeyondTheFile",
       rule_place,
       [](Liar& liar) { stray_frame(liar, {0, adu_bytes, 1000 * adu_bytes}, frame_of(Content(adu_bytes))); },
       {ok},
       true},
      {"FrameOfOtherBytes",
       rule_digest,
       [](Liar& liar) { stray_frame(liar, {0, adu_bytes, 0}, frame_of(Content(adu_bytes))); },
       {mismatch}},
      {"OnePlaceWithOtherBytesFirst",
       rule_digest,
       [](Liar& liar) { stray(liar, {0, adu_bytes, 0}, adu_bytes); },
       {mismatch}},
      {"OnePlaceWithOtherBytesLater",
       "a sequence and a place count once",
       [](Liar& liar) {
         if (liar.begin()) {
           liar.all_of(0, ConstBytes(liar.contents[0]).first(2 * adu_bytes));
           liar.until(Phase::data);
           liar.data({0, adu_bytes, 0}, Content(adu_bytes, std::byte{0x5a}));
           liar.finish();
         }
       },
       {ok},
       true},
      {"WrongDigest",
       rule_digest,
       [](Liar& liar) {
         if (liar.begin()) {
           liar.all_of(0, liar.contents[0]);
           liar.contents[0][5] ^= std::byte{1};
           liar.digests();
           liar.until(Phase::finished);
         }
       },
       {mismatch}},
      {"DigestsNeverCome",
       rule_receiver_progress,
       [](Liar& liar) {
         if (liar.begin()) {
           liar.all_of(0, liar.contents[0]);
         }
       },
       {timed_out}},
      {"DigestsFirst",
       "Besides the files two lists travel",
       [](Liar& liar) {
         if (liar.begin()) {
           liar.digests();
           liar.finish();
         }
       },
       {ok},
       true},
      {"DigestsBeforeTheManifest",
       "Besides the files two lists travel",
       [](Liar& liar) {
         liar.greet();
         liar.offer(liar.honest_offer());
         liar.digests();
         if (liar.begin()) {
           liar.finish();
         }
       },
       {ok},
       true},

      // --- Sequences
      {"SequenceZero", rule_sequence, [](Liar& liar) { stamped(liar, {0, 0, 1000}); }, {ok}, true},
      {"SequenceThatLeaps",
       "bounds how many sequences may be open",
       [](Liar& liar) { stamped(liar, {sequence_max - 1, 0, 1000}); },
       {timed_out, waits}},
      {"BehindBeforeTheFirst",
       "`behind` tells the receiver the oldest sequence that is still open",
       [](Liar& liar) { stamped(liar, {100, behind_max, 1000}); },
       {ok},
       true},
      {"BehindNothing",
       "`behind` tells the receiver the oldest sequence that is still open",
       [](Liar& liar) {
         stamped(liar, {liar.sequence + 2000, 0, 1000});
         liar.sequence += 2001;
         liar.finish();
       },
       {ok},
       true},
      {"OneSequenceTwice",
       rule_sequence,
       [](Liar& liar) {
         if (liar.begin()) {
           const Stamp stamp = liar.next_stamp();
           liar.data({0, adu_bytes, 0}, ConstBytes(liar.contents[0]).first(adu_bytes), stamp);
           liar.data({0, adu_bytes, adu_bytes}, Content(adu_bytes, std::byte{0x5a}), stamp);
           liar.finish();
         }
       },
       {ok},
       true},
      {"RoundTripOfHours",
       "round_trip:u8",
       [](Liar& liar) { stamped(liar, {liar.sequence + 1, 0, UINT64_MAX}); },
       {ok},
       true},

      // --- Streams
      {"AStream", "", [](Liar& liar) { stream_of(liar, liar.contents[0].size()); }, {ok}, true, true},
      {"AStreamOfTwoSizes",
       rule_stream_end,
       [](Liar& liar) { stream_of(liar, liar.contents[0].size() + 1); },
       {wrong},
       false,
       true},
      {"AStreamThatShrinks",
       rule_stream_end,
       [](Liar& liar) {
         liar.contents[0].resize(8 * adu_bytes);
         stream_of(liar, adu_bytes);
       },
       {wrong},
       false,
       true},
      {"AStreamOfNothingThatHasCome", rule_stream_end, [](Liar& liar) { stream_of(liar, 0); }, {wrong}, false, true},
      {"AStreamThatIsTooLarge", rule_size, [](Liar& liar) { stream_of(liar, file_content_max); }, {wrong}, false, true},
      {"BytesBehindTheEndOfAStream",
       rule_drop,
       [](Liar& liar) {
         if (liar.begin()) {
           end_stream(liar, liar.contents[0].size());
           liar.until(Phase::data);
           liar.data({0, adu_bytes, 10 * adu_bytes}, Content(adu_bytes));
           stream_of(liar, liar.contents[0].size());
         }
       },
       {ok},
       true,
       true},
      {"AStreamBehindTheEndOfAllFiles",
       rule_size,
       [](Liar& liar) {
         if (liar.begin()) {
           liar.data({0, adu_bytes, file_content_max - 2 * adu_bytes}, Content(adu_bytes));
           liar.until(Phase::finished);
         }
       },
       {timed_out, ExitCode::write_failed, ExitCode::disk_full},
       false,
       true},
      {"AStreamThatFallsSilent",
       rule_receiver_progress,
       [](Liar& liar) {
         if (liar.begin()) {
           liar.all_of(0, ConstBytes(liar.contents[0]).first(2 * adu_bytes));
         }
       },
       {timed_out},
       false,
       true},
      {"AStreamBesideAFile",
       rule_stream_alone,
       [](Liar& liar) { with_entry(liar, {.name = "x", .kind = EntryKind::stream}); },
       {wrong}},
      {"AStreamWithASize",
       rule_stream_alone,
       [](Liar& liar) {
         liar.entries[0].size_bytes = liar.contents[0].size();
         liar.list = encode_manifest(liar.entries);
         liar.begin();
       },
       {wrong},
       false,
       true},
      {"AStreamIntoADirectory",
       "It goes to where the OFFER's `path` leads, which is no directory",
       [](Liar& liar) {
         liar.entries[0] = {.name = "a.bin", .kind = EntryKind::stream};
         liar.list = encode_manifest(liar.entries);
         liar.begin();
       },
       {refused}},
      {"AStreamThatIsToBeCompared",
       "nothing that is there is compared with it",
       [](Liar& liar) { change_offer(liar, [](Offer& offer) { offer.update = {.existing = true}; }); },
       {wrong},
       false,
       true},

      // --- How it ends
      {"CloseBeforeTheEnd",
       "A REPORT of phase 2 ends the transfer with success, an ERROR ends it otherwise",
       [](Liar& liar) {
         if (liar.begin()) {
           liar.all_of(0, ConstBytes(liar.contents[0]).first(2 * adu_bytes));
           liar.control(emit_close(liar.envelope, liar.out));
         }
       },
       {wrong}},
      {"ErrorOfSuccess",
       rule_error,
       [](Liar& liar) {
         if (liar.begin()) {
           liar.control(emit_error(liar.envelope, {0, "it went well"}, liar.out));
         }
       },
       {wrong}},
      {"ErrorOfAnUnknownCode",
       rule_error,
       [](Liar& liar) {
         if (liar.begin()) {
           liar.control(emit_error(liar.envelope, {256, "?"}, liar.out));
         }
       },
       {wrong}},
      {"ProbesForEver",
       "A PROBE is no progress",
       [](Liar& liar) {
         if (liar.begin()) {
           for (int i = 0; i < 150 && liar.errors == 0; ++i) {
             liar.probe(liar.next_stamp());
             liar.hear(10ms);
           }
         }
       },
       {timed_out}},
      {"OneAduForEver",
       rule_receiver_progress,
       [](Liar& liar) {
         if (liar.begin()) {
           for (int i = 0; i < 150 && liar.errors == 0; ++i) {
             liar.data({0, adu_bytes, 0}, Content(adu_bytes));
             liar.hear(10ms);
           }
         }
       },
       {timed_out}},

      // --- What is no matter of a sender's
      {"AnswersOfAReceiver",
       "2, 6 and 9 to the sender",
       [](Liar& liar) {
         if (liar.begin()) {
           liar.control(emit_cookie(liar.envelope, {1, adu_bytes, {}}, liar.out));
           liar.control(emit_knock(liar.envelope, liar.out));
           Report finished;
           finished.phase = Phase::finished;
           liar.report(finished);
           liar.finish();
         }
       },
       {ok},
       true},
      {"TheOtherKindOfSeal",
       "nothing on the wire negotiates that",
       [](Liar& liar) {
         if (liar.begin()) {
           std::array<std::byte, control_bytes_max> plain{};
           Envelope here = liar.envelope;
           here.flags = liar.sealed() ? std::uint8_t{0} : flag_sealed;
           liar.raw(ConstBytes(plain).first(emit_error(here, {5, "no"}, plain)));
           liar.raw(ConstBytes(plain).first(emit_close(here, plain)));
           liar.finish();
         }
       },
       {ok},
       true},
      {"AThousandChallenges",
       "CHALLENGE, four a second at most",
       [](Liar& liar) {
         if (liar.begin()) {
           const std::uint64_t before = liar.datagrams;
           for (std::uint64_t i = 0; i < 1000; ++i) {
             liar.control(emit_challenge(liar.envelope, i, liar.out));
           }
           liar.finish();
           EXPECT_LE(liar.datagrams - before, 1200U);
         }
       },
       {ok},
       true},
      {"TakenWhatWasNeverSaid",
       "answers TAKEN with the largest `to` that it has taken",
       [](Liar& liar) {
         if (liar.begin()) {
           for (const std::uint64_t to : {std::uint64_t{1}, place_max, UINT64_MAX}) {
             liar.control(emit_taken(liar.envelope, to, liar.out));
           }
           liar.finish();
         }
       },
       {ok},
       true},
      {"TheSameControlDatagramAgain",
       "has a number that was there before (of the last 1,024) is dropped and counted",
       [](Liar& liar) {
         liar.greet();
         Content first;
         for (int i = 0; i < 3; ++i) {
           std::size_t size = emit_offer(liar.envelope, liar.honest_offer(), liar.out);
           size = liar.protection ? liar.protection->seal_control(liar.out, size) : size;
           first.assign(liar.out.begin(), liar.out.begin() + static_cast<std::ptrdiff_t>(size));
           liar.raw(first);
         }
         if (liar.begin()) {
           for (int i = 0; i < 100; ++i) {
             liar.raw(first);
           }
           liar.finish();
           for (int i = 0; i < 100; ++i) {
             liar.raw(first);
           }
         }
       },
       {ok},
       true},
  };
  return table;
}

class LyingSender : public testing::TestWithParam<std::tuple<bool, std::size_t>> {};

TEST_P(LyingSender, ChangesNothing) {
  const auto [sealed, row] = GetParam();
  const SenderLie& lie = sender_lies()[row];
  SCOPED_TRACE(testing::Message() << lie.name << ": " << lie.sentence);
  FarSide far(sealed, StartDirection::push, lie.streams ? "a.bin" : "");
  ASSERT_GT(far.port(), 0);
  Liar liar(far.port(), far.take_protection());
  liar.add("a.bin", random_content(9 * adu_bytes + 500));
  if (lie.streams) {
    liar.path = "a.bin";
    liar.entries[0] = {.name = "a.bin", .kind = EntryKind::stream};
    liar.list = encode_manifest(liar.entries);
  }
  const Content truth = liar.contents[0];
  lie.tell(liar);
  if (!lie.ends.contains(ok) && !lie.ends.contains(waits) && liar.errors == 0) {
    liar.hear(Kind::error, 3s);  // it says that it gives up
  }
  far.expect_end(lie.ends);
  far.expect_files(lie.arrives ? std::optional(truth) : std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Table, LyingSender,
                         testing::Combine(testing::Bool(), testing::Range<std::size_t>(0, sender_lies().size())),
                         [](const auto& instance) {
                           return std::string(std::get<0>(instance.param) ? "Sealed" : "Insecure") +
                                  sender_lies()[std::get<1>(instance.param)].name;
                         });

}  // namespace
}  // namespace sluice::ftx::hostile
