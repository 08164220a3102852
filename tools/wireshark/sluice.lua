-- SPDX-License-Identifier: Apache-2.0
-- What the modules rmpp, utopia and xtp and the message library put on the wire, for Wireshark and tshark (4.0 or later).
--
--   tshark -X lua_script:sluice.lua -r FILE        once
--   ~/.local/lib/wireshark/plugins/sluice.lua      always: a copy, or a link to it
--
--   sluice_rmpp   packets of rmpp and utopia, in UDP (docs/formats/rmpp.md)
--   sluice_msg    frames of the message library, in TCP (docs/formats/msg.md)
--   sluice_xtp    packets of xtp, in UDP (docs/formats/xtp.md): hands them to Wireshark's own XTP, which knows them in IP alone
--
-- Packets are recognised by what is in them, at any port. Where Wireshark takes the port for another protocol's, as it does 7000:
-- `-o udp.try_heuristic_first:TRUE`, and the same of tcp, or `-d udp.port==7000,sluice_rmpp`. A conversation that was
-- recognised once keeps its protocol, so that what is malformed in it is marked: the filter `_ws.expert.group == "Malformed"`
-- finds it, and each has the name of the counter under which the module drops it, as in sluice_rmpp.bad_checksum.
--
-- Threat: captures hold whatever anybody has sent. Nothing is read beyond what was captured, every loop ends with its
-- packet, and no more than message_bytes_max of a message are put together.

---- What they have in common ----

local function u64(range)  -- as a number: exact below 2^53, which nothing beyond is compared with
  return range(0, 4):uint() * 2 ^ 32 + range(4, 4):uint()
end

-- RFC 1071, over a range whose checksum is in it: whether it is right.
local function sum_holds(range)
  local sum = 0
  for at = 0, range:len() - 2, 2 do
    sum = sum + range(at, 2):uint()
  end
  if range:len() % 2 == 1 then
    sum = sum + range(range:len() - 1, 1):uint() * 256
  end
  while sum > 65535 do
    sum = sum % 65536 + math.floor(sum / 65536)
  end
  return sum == 65535
end

-- An expert info for each way to be malformed, by its name.
local function malformed_experts(proto, prefix, meanings)
  local experts = {}
  local list = {}
  for name, meaning in pairs(meanings) do
    experts[name] = ProtoExpert.new(prefix .. "." .. name, meaning, expert.group.MALFORMED, expert.severity.ERROR)
    list[#list + 1] = experts[name]
  end
  proto.experts = list
  return experts
end

-- A packet for which `is_ours` holds is the protocol's, and so is its conversation; or a port, if Wireshark is told so.
local function recognise(proto, layer, is_ours)
  proto:register_heuristic(layer, function(tvb, pinfo, tree)
    if not is_ours(tvb) then return false end
    pinfo.conversation = proto
    proto.dissector(tvb, pinfo, tree)
    return true
  end)
  DissectorTable.get(layer .. ".port"):add_for_decode_as(proto)
end

---- rmpp and utopia ----

local rmpp = Proto("sluice_rmpp", "Reliable Message Passing Protocol of Sluice")
local rmpp_header_bytes = 64
local rmpp_types = {
  [1] = "request to send", [2] = "clear to send", [3] = "data", [4] = "message end", [5] = "discard state", [6] = "refuse",
}
local rmpp_fields = {
  version = ProtoField.uint8("sluice_rmpp.version", "Version"),
  type = ProtoField.uint8("sluice_rmpp.type", "Type", base.DEC, rmpp_types),
  flags = ProtoField.uint8("sluice_rmpp.flags", "Flags", base.HEX, {[0] = "none", [1] = "selective", [2] = "unacknowledged (utopia)"}),
  source = ProtoField.uint32("sluice_rmpp.source", "Process that sends", base.HEX),
  destination = ProtoField.uint32("sluice_rmpp.destination", "Process that it is for", base.HEX),
  number = ProtoField.uint32("sluice_rmpp.number", "Number of the message"),
  attempt = ProtoField.uint16("sluice_rmpp.attempt", "Attempt"),
  packet_bytes = ProtoField.uint16("sluice_rmpp.packet_bytes", "Bytes of a packet"),
  index = ProtoField.uint32("sluice_rmpp.index", "Index of the packet"),
  grant = ProtoField.uint16("sluice_rmpp.grant", "Granted packets, from the index on", base.HEX),
  length = ProtoField.uint16("sluice_rmpp.length", "Bytes of payload"),
  total = ProtoField.uint64("sluice_rmpp.total", "Bytes of the message"),
  tag = ProtoField.uint64("sluice_rmpp.tag", "Matching bits", base.HEX),
  copies = ProtoField.bytes("sluice_rmpp.copies", "Key fields, complemented"),
  checksum = ProtoField.uint16("sluice_rmpp.checksum", "Checksum of the header", base.HEX),
  payload = ProtoField.bytes("sluice_rmpp.payload", "Payload"),
}
rmpp.fields = rmpp_fields
local rmpp_malformed = malformed_experts(rmpp, "sluice_rmpp", {
  short_header = "shorter than a header",
  bad_version = "not version 1",
  bad_checksum = "the header's checksum is wrong",
  bad_copy = "a key field and its complement differ",
  bad_type = "no type of packet there is",
  bad_flags = "flags that there are not, or that exclude each other",
  bad_length = "the payload is not as long as the field says, or as its index asks for",
  bad_total = "no size of packets, or more packets than can be numbered",
  bad_index = "an index outside of the message, or none for its type",
  bad_grant = "a grant of nothing, beyond the message, or where none belongs",
})

-- The range of each field, its packets counted. REQUIRES: `range` is a header.
local function rmpp_header(range)
  local header = {
    version = range(0, 1), type = range(1, 1), flags = range(2, 1), source = range(4, 4), destination = range(8, 4),
    number = range(12, 4), attempt = range(16, 2), packet_bytes = range(18, 2), index = range(20, 4), grant = range(24, 2),
    length = range(26, 2), total = range(32, 8), tag = range(40, 8), copies = range(48, 14), checksum = range(62, 2),
  }
  local total, packet_bytes = u64(header.total), header.packet_bytes:uint()
  header.packets = (total == 0 or packet_bytes == 0) and 1 or math.floor((total - 1) / packet_bytes) + 1
  return header
end

local function copies_hold(range)
  return range(48, 1):uint() == 255 - range(1, 1):uint() and range(49, 1):uint() == 255 - range(2, 1):uint() and
    range(50, 2):uint() == 65535 - range(16, 2):uint() and range(52, 4):uint() == 4294967295 - range(12, 4):uint() and
    range(56, 4):uint() == 4294967295 - range(20, 4):uint() and range(60, 2):uint() == 65535 - range(26, 2):uint()
end

local function highest_bit(grant)  -- counted from 1; 0 of nothing
  local bits = 0
  while grant >= 1 do
    grant = math.floor(grant / 2)
    bits = bits + 1
  end
  return bits
end

-- What is wrong with a packet of `packet_bytes`, in the module's order; nil: nothing.
local function rmpp_problem(range, packet_bytes)
  local header = rmpp_header(range)
  local type, flags, index = header.type:uint(), header.flags:uint(), header.index:uint()
  local length, grant, full = header.length:uint(), header.grant:uint(), header.packet_bytes:uint()
  if header.version:uint() ~= 1 then return "bad_version" end
  if not sum_holds(range) then return "bad_checksum" end
  if not copies_hold(range) then return "bad_copy" end
  if not rmpp_types[type] then return "bad_type" end
  if flags > 2 or range(3, 1):uint() ~= 0 or range(28, 4):uint() ~= 0 then return "bad_flags" end
  if length ~= packet_bytes - rmpp_header_bytes then return "bad_length" end
  if full < 64 or header.packets > 4294967295 then return "bad_total" end
  local carries, grants = type == 1 or type == 3, type == 2
  local numbered = type == 3 or grants
  if index >= header.packets or (not numbered and index ~= 0) or (type == 3 and index == 0) then return "bad_index" end
  if length ~= (carries and math.min(full, u64(header.total) - index * full) or 0) then return "bad_length" end
  if (grant ~= 0) ~= grants or (grants and index + highest_bit(grant) > header.packets) then return "bad_grant" end
  return nil
end

local function rmpp_summary(header)
  local type = header.type:uint()
  local text = string.format("%s, message %d", rmpp_types[type] or "type " .. type, header.number:uint())
  if header.attempt:uint() > 0 then
    text = text .. string.format(", attempt %d", header.attempt:uint())
  end
  if type == 1 or type == 3 then
    text = text .. string.format(", packet %d of %.0f, %d of %.0f bytes", header.index:uint() + 1, header.packets,
                                 header.length:uint(), u64(header.total))
  elseif type == 2 then
    text = text .. string.format(", from packet %d of %.0f", header.index:uint() + 1, header.packets)
  end
  return text
end

function rmpp.dissector(tvb, pinfo, tree)
  local subtree = tree:add(rmpp, tvb())
  pinfo.cols.protocol = "RMPP"
  if tvb:captured_len() < rmpp_header_bytes then
    if tvb:reported_len() < rmpp_header_bytes then
      subtree:add_proto_expert_info(rmpp_malformed.short_header)
      pinfo.cols.info = "malformed: short_header"
    end
    return tvb:captured_len()
  end
  local range = tvb(0, rmpp_header_bytes)
  local header = rmpp_header(range)
  if header.flags:uint() == 2 then
    pinfo.cols.protocol = "Utopia"
  end
  for _, name in ipairs({"version", "type", "flags", "source", "destination", "number", "attempt", "packet_bytes", "index",
                         "grant", "length", "total", "tag", "copies", "checksum"}) do
    subtree:add(rmpp_fields[name], header[name])
  end
  if tvb:captured_len() > rmpp_header_bytes then
    subtree:add(rmpp_fields.payload, tvb(rmpp_header_bytes))
  end
  local problem = rmpp_problem(range, tvb:reported_len())
  if problem then
    subtree:add_proto_expert_info(rmpp_malformed[problem])
  end
  pinfo.cols.info = (problem and "malformed: " .. problem .. ": " or "") .. rmpp_summary(header)
  return tvb:captured_len()
end

-- Key fields that are there twice are hardly another protocol's.
recognise(rmpp, "udp", function(tvb)
  return tvb:captured_len() >= rmpp_header_bytes and tvb(0, 1):uint() == 1 and copies_hold(tvb(0, rmpp_header_bytes))
end)

---- The message library's frames ----

local msg = Proto("sluice_msg", "Messages of Sluice")
local msg_header_bytes = 32
local message_bytes_max = 16 * 1024 * 1024  -- a longer message's payload is not put together
local msg_types = {[1] = "hello", [2] = "message", [3] = "done", [4] = "refused"}
local msg_fields = {
  magic = ProtoField.uint16("sluice_msg.magic", "Magic", base.HEX),
  version = ProtoField.uint8("sluice_msg.version", "Version"),
  type = ProtoField.uint8("sluice_msg.type", "Type", base.DEC, msg_types),
  port = ProtoField.uint16("sluice_msg.port", "Port where the caller listens"),
  number = ProtoField.uint64("sluice_msg.number", "Number of the message"),
  tag = ProtoField.uint64("sluice_msg.tag", "Matching bits", base.HEX),
  length = ProtoField.uint64("sluice_msg.length", "Bytes of payload"),
  payload = ProtoField.bytes("sluice_msg.payload", "Payload"),
}
msg.fields = msg_fields
local msg_malformed = malformed_experts(msg, "sluice_msg", {
  bad_magic = "no frame",
  bad_version = "not version 1",
  bad_type = "no type of frame there is",
  bad_field = "a field that its type does not have is not 0, or one that it has is 0",
})

-- What is wrong with a header; nil: nothing.
local function msg_problem(range)
  if range(0, 2):uint() ~= 0x534d then return "bad_magic" end
  if range(2, 1):uint() ~= 1 then return "bad_version" end
  local type = range(3, 1):uint()
  if not msg_types[type] then return "bad_type" end
  local is_hello, has_tail = type == 1, type == 2
  if range(6, 2):uint() ~= 0 or (range(4, 2):uint() ~= 0) ~= is_hello or (u64(range(8, 8)) == 0) ~= is_hello or
      (not has_tail and (u64(range(16, 8)) ~= 0 or u64(range(24, 8)) ~= 0)) then
    return "bad_field"
  end
  return nil
end

-- One frame, with what is there of its payload. REQUIRES: its header is.
local function msg_frame(range, tree)
  local type = range(3, 1):uint()
  local subtree = tree:add(msg, range, "Messages of Sluice: " .. (msg_types[type] or "type " .. type))
  subtree:add(msg_fields.magic, range(0, 2))
  subtree:add(msg_fields.version, range(2, 1))
  subtree:add(msg_fields.type, range(3, 1))
  subtree:add(msg_fields.port, range(4, 2))
  subtree:add(msg_fields.number, range(8, 8))
  subtree:add(msg_fields.tag, range(16, 8))
  subtree:add(msg_fields.length, range(24, 8))
  if range:len() > msg_header_bytes then
    subtree:add(msg_fields.payload, range(msg_header_bytes))
  end
  return subtree
end

function msg.dissector(tvb, pinfo, tree)
  local said = {}
  local offset = 0
  pinfo.cols.protocol = "Messages"
  while offset < tvb:captured_len() do
    local left = tvb:captured_len() - offset
    local wanted = msg_header_bytes
    local problem = nil
    if left >= msg_header_bytes then
      local header = tvb(offset, msg_header_bytes)
      local length = u64(header(24, 8))
      problem = msg_problem(header)
      if problem or length > message_bytes_max then
        wanted = left  -- where the next frame begins is not known
      else
        wanted = msg_header_bytes + length
      end
    end
    if left < wanted then
      if tvb:reported_len() == tvb:captured_len() then
        pinfo.desegment_offset = offset
        pinfo.desegment_len = DESEGMENT_ONE_MORE_SEGMENT
      end
      break
    end
    local range = tvb(offset, wanted)
    local subtree = msg_frame(range, tree)
    if problem then
      subtree:add_proto_expert_info(msg_malformed[problem])
      said[#said + 1] = "malformed: " .. problem
    else
      local number = range(3, 1):uint() == 1 and "" or string.format(" %.0f", u64(range(8, 8)))
      said[#said + 1] = msg_types[range(3, 1):uint()] .. number
    end
    offset = offset + wanted
  end
  if #said > 0 then
    pinfo.cols.info = table.concat(said, ", ")
  end
  return tvb:captured_len()
end

recognise(msg, "tcp", function(tvb)
  return tvb:captured_len() >= msg_header_bytes and not msg_problem(tvb(0, msg_header_bytes))
end)

---- XTP over UDP ----

local xtp = Proto("sluice_xtp", "Xpress Transport Protocol over UDP")
local xtp_in_ip = DissectorTable.get("ip.proto"):get_dissector(36)
local xtp_header_bytes = 32
local xtp_types = {[0] = true, [1] = true, [2] = true, [3] = true, [5] = true, [8] = true}

-- Of a malformed packet call() is an error in Lua after Wireshark has marked it.
function xtp.dissector(tvb, pinfo, tree)
  pcall(xtp_in_ip.call, xtp_in_ip, tvb, pinfo, tree)
  return tvb:captured_len()
end

-- Version, type, length and the checksum over what it covers.
recognise(xtp, "udp", function(tvb)
  local bytes = tvb:captured_len()
  if bytes < xtp_header_bytes then return false end
  local kind = tvb(11, 1):uint()
  if math.floor(kind / 32) ~= 1 or not xtp_types[kind % 32] or tvb(12, 4):uint() ~= bytes - xtp_header_bytes then return false end
  local no_check = tvb(8, 1):bitfield(1) == 1
  return sum_holds(tvb(0, no_check and xtp_header_bytes or bytes))
end)
