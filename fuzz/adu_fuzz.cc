// SPDX-License-Identifier: Apache-2.0
// The decoders of what comes from outside: a datagram of any kind, or, after a first byte of 0xff, a manifest. What
// is accepted must hold what the headers promise, and must say the same when it is written again.
#include <algorithm>
#include <array>
#include <cstdint>

#include "apps/ftx/protocol/contents.h"
#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"
#include "apps/ftx/protocol/pack.h"
#include "base/contract.h"

namespace {

using namespace sluice;
using namespace sluice::ftx;

void same(ConstBytes datagram, ConstBytes again) {
  SLUICE_REQUIRE(std::equal(again.begin(), again.end(), datagram.begin(),
                            datagram.begin() + static_cast<std::ptrdiff_t>(again.size())));
}

void decode_data(const Envelope& envelope, ConstBytes datagram) {
  const auto data = parse_data(datagram, datagram.size());
  if (!data) {
    return;
  }
  SLUICE_REQUIRE(data->adu.offset + data->adu.length > data->adu.offset && data->stamp.behind < data->stamp.sequence);
  SLUICE_REQUIRE(data->payload_bytes > 0 && data->payload_bytes <= data->adu.length);
  SLUICE_REQUIRE(data->compressed ? data->adu.length <= compressed_adu_bytes_max
                                  : data->payload_bytes == data->adu.length);
  std::array<std::byte, data_header_bytes> out{};
  same(datagram, ConstBytes(out).first(emit_data_header(envelope, *data, out)));
}

void decode_report(const Envelope& envelope, ConstBytes datagram) {
  const auto report = parse_report(datagram);
  if (!report) {
    return;
  }
  std::uint64_t next = report->from;
  for (std::size_t i = 0; i < report->range_count; ++i) {
    SLUICE_REQUIRE(report->missing[i].first >= next && report->missing[i].count > 0);
    next = report->missing[i].first + report->missing[i].count;
    SLUICE_REQUIRE(next <= report->to + 1);
  }
  std::array<std::byte, control_bytes_max> out{};
  same(datagram, ConstBytes(out).first(emit_report(envelope, *report, out)));
}

void decode_have(const Envelope& envelope, ConstBytes datagram) {
  std::array<std::byte, control_bytes_max> out{};
  if (const auto have = parse_have(datagram); have && envelope.kind == Kind::have) {
    std::uint64_t next = have->from;
    for (std::size_t i = 0; i < have->range_count; ++i) {
      SLUICE_REQUIRE(have->ranges[i].from >= next && have->ranges[i].to > have->ranges[i].from);
      next = have->ranges[i].to;
    }
    SLUICE_REQUIRE(next <= have->to && have->to > have->from);
    same(datagram, ConstBytes(out).first(emit_have(envelope, *have, out)));
  }
  if (const auto to = parse_taken(datagram); to && envelope.kind == Kind::taken) {
    same(datagram, ConstBytes(out).first(emit_taken(envelope, *to, out)));
  }
}

void decode_changes(const Envelope& envelope, ConstBytes datagram) {
  std::array<std::byte, control_bytes_max> out{};
  if (const auto told = parse_changes(datagram); told && envelope.kind == Kind::changes) {
    std::vector<std::byte> records(told->changes.size() * change_bytes_max);
    Writer writer(records);
    for (const Change& change : told->changes) {
      SLUICE_REQUIRE(is_relative_path(change.path) && change_path(change.path) == change.path);
      put(writer, change);
    }
    same(datagram.subspan(envelope_bytes + 8), ConstBytes(records).first(writer.size()));
    SLUICE_REQUIRE(datagram.size() == envelope_bytes + 8 + writer.size());
  }
  if (const auto to = parse_noted(datagram); to && envelope.kind == Kind::noted) {
    same(datagram, ConstBytes(out).first(emit_noted(envelope, *to, out)));
  }
}

void decode_sign(const Envelope& envelope, ConstBytes datagram) {
  std::array<std::byte, control_bytes_max> out{};
  if (const auto numbers = parse_sign(datagram); numbers && envelope.kind == Kind::sign) {
    SLUICE_REQUIRE(std::ranges::is_sorted(*numbers) && numbers->size() <= signed_files_max);
    same(datagram, ConstBytes(out).first(emit_sign(envelope, *numbers, out)));
  }
}

void decode_control(const Envelope& envelope, ConstBytes datagram) {
  std::array<std::byte, control_bytes_max> out{};
  if (const auto hello = parse_hello(datagram); hello && envelope.kind == Kind::hello) {
    constexpr std::size_t fields = envelope_bytes + sizeof(hello->nonce) + sizeof(hello->adu_bytes);  // then padding
    SLUICE_REQUIRE(emit_hello(envelope, *hello, out) == datagram.size());
    same(datagram, ConstBytes(out).first(fields));
  }
  if (const auto reply = parse_cookie(datagram); reply && envelope.kind == Kind::cookie) {
    same(datagram, ConstBytes(out).first(emit_cookie(envelope, *reply, out)));
  }
  if (const auto offer = parse_offer(datagram); offer && envelope.kind == Kind::offer) {
    same(datagram, ConstBytes(out).first(emit_offer(envelope, *offer, out)));
    if (is_relative_path(offer->path)) {
      SLUICE_REQUIRE(components(offer->path).size() <= offer->path.size());
    }
  }
  if (const auto stamp = parse_probe(datagram); stamp && envelope.kind == Kind::probe) {
    same(datagram, ConstBytes(out).first(emit_probe(envelope, *stamp, out)));
  }
  if (const auto control = parse_control(datagram); control && envelope.kind == Kind::control) {
    same(datagram, ConstBytes(out).first(emit_control(envelope, *control, out)));
  }
  if (const auto error = parse_error(datagram); error && envelope.kind == Kind::error) {
    SLUICE_REQUIRE(is_printable(error->text));
    same(datagram, ConstBytes(out).first(emit_error(envelope, *error, out)));
  }
}

void decode_manifest_bytes(ConstBytes bytes) {
  if (bytes.size() < 9) {
    return;
  }
  const std::size_t count = std::to_integer<std::size_t>(bytes[0]);
  const auto manifest =
      decode_whole_manifest(bytes.subspan(9), count, load_big_endian<std::uint64_t>(bytes.data() + 1));
  if (!manifest) {
    SLUICE_REQUIRE(is_printable(manifest.error().text));
    return;
  }
  const std::vector<FileEntry>* const files = &manifest->entries;
  for (std::size_t i = 0; i < files->size(); ++i) {
    const FileEntry& file = (*files)[i];
    SLUICE_REQUIRE(is_component(file.name) || (i == 0 && file.top()));
    SLUICE_REQUIRE(file.parent <= i);
    SLUICE_REQUIRE(file.parent == 0 || (*files)[file.parent - 1].kind == EntryKind::directory);
    SLUICE_REQUIRE(is_relative_path(path_of(*files, file)));
    SLUICE_REQUIRE(!file.metadata || !file.metadata->empty());
    SLUICE_REQUIRE(!file.stream() || (files->size() == 1 && file.size_bytes == 0 && !file.metadata));
    if (file.attributes() != nullptr) {
      const auto all = file.attributes()->all();
      SLUICE_REQUIRE(std::ranges::all_of(all, &ExtendedAttributes::is_name, &ExtendedAttribute::name));
      SLUICE_REQUIRE(ExtendedAttributes::of(all) == *file.attributes());
    }
    SLUICE_REQUIRE(file.content_bytes() <= file.size_bytes && file.end_of(file.content_bytes()) <= file.size_bytes);
  }
  const Pack pack(*files);
  const Contents contents(*files, pack);
  SLUICE_REQUIRE(contents.in({0, contents.size_bytes()}).files == contents.files());
  SLUICE_REQUIRE(pack.files() == 0 || pack.at(pack.size_bytes() - 1) == pack.files() - 1);
  const auto again = encode_manifest(*files, manifest->deletion ? &*manifest->deletion : nullptr);
  SLUICE_REQUIRE(again.size() == bytes.size() - 9);
  same(bytes.subspan(9), again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes bytes = std::as_bytes(std::span(data, size));
  if (!bytes.empty() && bytes[0] == std::byte{0xff}) {
    decode_manifest_bytes(bytes.subspan(1));
    return 0;
  }
  const auto envelope = parse_envelope(bytes);
  if (!envelope) {
    return 0;
  }
  decode_control(*envelope, bytes);
  decode_have(*envelope, bytes);
  decode_changes(*envelope, bytes);
  decode_sign(*envelope, bytes);
  if (envelope->kind == Kind::data) {
    decode_data(*envelope, bytes);
  }
  if (envelope->kind == Kind::report) {
    decode_report(*envelope, bytes);
  }
  return 0;
}
