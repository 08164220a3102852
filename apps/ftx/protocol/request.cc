// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/request.h"

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/message.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

enum class PullKind : std::uint8_t { request = 1, refusal = 2 };

/// The header, and room for the body behind it.
Writer begin(std::vector<std::byte>& out, PullKind kind, std::size_t body_bytes) {
  out.resize(request_header_bytes + body_bytes);
  Writer writer(out);
  writer.number(static_cast<std::uint8_t>(kind)).number(static_cast<std::uint16_t>(body_bytes));
  return writer;
}

bool is_path(std::string_view path) { return !path.empty() && path.size() <= path_bytes_max; }

std::optional<PullMessage> parse_request(ConstBytes body) {
  Reader reader(body);
  PullRequest request;
  const auto manner = reader.number<std::uint8_t>();
  request.congestion = congestion_in(manner);
  request.compress = compress_in(manner);
  request.delta = delta_in(manner);
  request.rate = reader.number<std::uint64_t>();
  request.datagram_bytes = reader.number<std::uint32_t>();
  request.trees = Trees{reader.number<std::uint8_t>()};
  auto select = take_selection(reader);
  const std::size_t paths = reader.number<std::uint16_t>();
  if (!select || paths == 0 || paths > request_paths_max || !is_congestion(request.congestion, request.rate) ||
      !is_compress(request.compress) || !is_trees(request.trees)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < paths; ++i) {
    const ConstBytes path = reader.take(reader.number<std::uint16_t>());
    if (!is_path(as_text(path))) {
      return std::nullopt;
    }
    request.paths.emplace_back(as_text(path));
  }
  request.select = *std::move(select);
  return reader.exhausted() ? std::optional<PullMessage>(std::move(request)) : std::nullopt;
}

std::optional<PullMessage> parse_refusal(ConstBytes body) {
  Reader reader(body);
  PullRefusal refusal;
  refusal.code = failure_row(reader.number<std::uint16_t>()).code;
  refusal.text = as_text(reader.take(reader.number<std::uint16_t>()));
  const bool good = reader.exhausted() && refusal.text.size() <= request_text_bytes_max && is_printable(refusal.text);
  return good ? std::optional<PullMessage>(std::move(refusal)) : std::nullopt;
}

}  // namespace

std::optional<std::vector<std::byte>> encode(const PullRequest& request) {
  std::size_t size = 1 + 8 + 4 + 1 + encoded_bytes(request.select) + 2;
  for (const std::string& path : request.paths) {
    if (!is_path(path)) {
      return std::nullopt;
    }
    size += 2 + path.size();
  }
  if (request.paths.empty() || request.paths.size() > request_paths_max ||
      size > request_bytes_max - request_header_bytes || !is_congestion(request.congestion, request.rate) ||
      !fit(request.select)) {
    return std::nullopt;
  }
  std::vector<std::byte> out;
  Writer writer = begin(out, PullKind::request, size);
  writer.number(manner_of(request.congestion, request.compress, request.delta));
  writer.number(request.rate).number(request.datagram_bytes);
  writer.number(static_cast<std::uint8_t>(request.trees));
  put(writer, request.select);
  writer.number(static_cast<std::uint16_t>(request.paths.size()));
  for (const std::string& path : request.paths) {
    writer.number(static_cast<std::uint16_t>(path.size())).bytes(as_bytes(path));
  }
  return out;
}

std::vector<std::byte> encode(const PullRefusal& refusal) {
  const std::string text = printable(printable(refusal.text).substr(0, request_text_bytes_max));
  std::vector<std::byte> out;
  Writer writer = begin(out, PullKind::refusal, 2 + 2 + text.size());
  writer.number(static_cast<std::uint16_t>(refusal.code));
  writer.number(static_cast<std::uint16_t>(text.size())).bytes(as_bytes(text));
  return out;
}

std::expected<std::optional<PullMessage>, std::string> parse_pull_message(ConstBytes bytes) {
  Reader reader(bytes);
  const auto kind = PullKind{reader.number<std::uint8_t>()};
  if (reader.ok() && kind != PullKind::request && kind != PullKind::refusal) {
    return std::unexpected("a message of an unknown kind");
  }
  const std::size_t size = reader.number<std::uint16_t>();
  if (!reader.ok()) {
    return std::nullopt;
  }
  if (request_header_bytes + size > request_bytes_max) {
    return std::unexpected("a message is longer than any");
  }
  if (reader.rest().size() < size) {
    return std::nullopt;
  }
  if (reader.rest().size() > size) {
    return std::unexpected("there is more behind the message");
  }
  auto message = kind == PullKind::request ? parse_request(reader.rest()) : parse_refusal(reader.rest());
  if (!message) {
    return std::unexpected("a message is malformed");
  }
  return std::optional<PullMessage>(*std::move(message));
}

}  // namespace sluice::ftx
