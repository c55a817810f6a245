-- SPDX-License-Identifier: GPL-2.0
--
-- MPA (RFC 5044, RFC 6581) and TUF for Wireshark and tshark, from 4.0 on:
-- startup frames, FPDUs, markers, CRCs. See README, "Wireshark and tshark".
--
-- It is a postdissector: it gets every TCP segment, whatever Wireshark's protocol for
-- it, and reassembles each direction of the stream itself.

local REQUEST, REPLY = "MPA ID Req Frame", "MPA ID Rep Frame"
local KEY_LEN, STARTUP_LEN, PRIVATE_MAX = 16, 20, 512
local M, C, R, S = 0x80, 0x40, 0x20, 0x10
local MPA_PERIOD, MARKER_LEN, CRC_LEN = 512, 4, 4
local ULPDU_MAX = 64768
local ANY = 0x3FFF	-- IRD, ORD: left to the programs
local TUF_HEADER, TUF_PERIOD = 8, 2048
-- After this number of octets the other startup frame is no longer awaited.
local WAIT_MAX = 1024 * 1024

-- ---- CRC32c ----

-- Take sixteen octets at a time, with a table for each position. Lua 5.2 has no bit
-- operators, and Lua 5.4 no bit32, so the text is generated for either.
local function make_crc32c()
	local modern = not bit32
	local function xor(terms)
		if modern then
			return "(" .. table.concat(terms, " ~ ") .. ")"
		end
		return "bxor(" .. table.concat(terms, ", ") .. ")"
	end
	local names, terms = {}, {}
	for n = 0, 15 do
		names[#names + 1] = "T" .. n
		terms[#terms + 1] = ("T%d[%s]"):format(15 - n,
			({ [0] = "x0", "x1", "x2", "x3" })[n] or "b" .. n)
	end
	local text = ([[
		local T, bxor = ...
		local NAMES = T[0]TABLES
		local byte = string.byte
		return function(s, first, last)
			local crc = 0xffffffff
			while last - first >= 15 do
				local b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10,
				      b11, b12, b13, b14, b15 =
					byte(s, first, first + 15)
				local x = WORD
				local x0 = x % 256
				x = (x - x0) DIV 256
				local x1 = x % 256
				x = (x - x1) DIV 256
				local x2 = x % 256
				local x3 = (x - x2) DIV 256
				crc = TERMS
				first = first + 16
			end
			while first <= last do
				local low = crc % 256
				crc = ONE
				first = first + 1
			end
			return FINAL
		end]]):gsub("%u%u+", {
			NAMES = table.concat(names, ", "),
			TABLES = (", T[%d]"):rep(15):format(1, 2, 3, 4, 5, 6, 7, 8, 9,
				10, 11, 12, 13, 14, 15),
			DIV = modern and "//" or "/",
			WORD = xor({ "crc", "b0 + b1 * 256 + b2 * 65536 + b3 * 16777216" }),
			TERMS = xor(terms),
			ONE = xor({ ("(crc - low) %s 256"):format(modern and "//" or "/"),
				    "T0[" .. xor({ "low", "byte(s, first)" }) .. "]" }),
			FINAL = xor({ "crc", "0xffffffff" }),
		})
	local bxor = bit32 and bit32.bxor or
		load("return function(a, b) return a ~ b end")()
	local half = math.floor
	local T = {}
	for k = 0, 15 do
		T[k] = {}
	end
	for n = 0, 255 do
		local crc = n
		for _ = 1, 8 do
			local low = crc % 2
			crc = half(crc / 2)
			if low == 1 then
				crc = bxor(crc, 0x82F63B78)
			end
		end
		T[0][n] = crc
	end
	for k = 1, 15 do
		for n = 0, 255 do
			local crc = T[k - 1][n]
			T[k][n] = bxor(half(crc / 256), T[0][crc % 256])
		end
	end
	return assert(load(text))(T, bxor)
end

local crc32c = make_crc32c()

-- ---- fields ----

local mpax = Proto("mpax", "Marker PDU Aligned framing, with mpa.lua")
local pf, ef = {}, {}

local function field(name, kind, ...)
	pf[name] = ProtoField[kind]("mpax." .. name, ...)
end

field("startup", "string", "Startup frame")
field("startup.key", "string", "Key")
field("startup.flags", "uint8", "Flags", base.HEX)
field("startup.m", "bool", "M: the sender of this frame wants markers", 8, nil, M)
field("startup.c", "bool", "C: the sender of this frame wants CRCs", 8, nil, C)
field("startup.r", "bool", "R: the connection is rejected", 8, nil, R)
field("startup.s", "bool", "S: enhanced, IRD and ORD are there", 8, nil, S)
field("startup.res", "uint8", "Reserved", base.HEX, nil, 0x0F)
field("startup.rev", "uint8", "Rev")
field("startup.pd_length", "uint16", "PD_Length")
field("enhanced.a", "bool", "A: peer-to-peer", 16, nil, 0x8000)
field("enhanced.b", "bool", "B: RTR may be an FPDU without ULPDU", 16, nil, 0x4000)
field("enhanced.ird", "uint16", "IRD", base.DEC, nil, 0x3FFF)
field("enhanced.c", "bool", "C: RTR may be an RDMA Write", 16, nil, 0x8000)
field("enhanced.d", "bool", "D: RTR may be an RDMA Read", 16, nil, 0x4000)
field("enhanced.ord", "uint16", "ORD", base.DEC, nil, 0x3FFF)
field("startup.private", "bytes", "Private data")

field("conn.request", "framenum", "Request Frame in")
field("conn.reply", "framenum", "Reply Frame in")
field("conn.rev", "uint8", "Revision")
field("conn.crc", "bool", "CRCs")
field("conn.markers_out", "bool", "Markers from the initiator")
field("conn.markers_in", "bool", "Markers from the responder")
field("conn.rejected", "bool", "Rejected")
field("conn.p2p", "bool", "Peer-to-peer")
field("conn.rtr", "string", "RTR that both allow")
field("conn.read_out", "uint16", "RDMA Reads from the initiator at most")
field("conn.read_in", "uint16", "RDMA Reads from the responder at most")

field("fpdu", "string", "FPDU")
field("fpdu.number", "uint64", "Number, from 0")
field("fpdu.position", "uint64", "Position in the stream")
field("fpdu.size", "uint32", "Octets of it all")
field("fpdu.length", "uint16", "ULPDU_Length")
field("fpdu.key", "bytes", "Key")
field("fpdu.first_frame", "framenum", "Begins in")
field("ulpdu", "bytes", "ULPDU")
field("pad", "bytes", "Padding")
field("crc", "uint32", "CRC", base.HEX)
field("crc.status", "string", "Verdict")
field("crc.good", "bool", "CRC is right")
field("crc.bad", "bool", "CRC is wrong")
field("crc.computed", "uint32", "Must be", base.HEX)

field("marker", "string", "Marker")
field("marker.position", "uint64", "Position in the stream")
field("marker.reserved", "uint16", "Reserved", base.HEX)
field("marker.fpduptr", "uint16", "FPDUPTR")
field("marker.first", "uint16", "First copy")
field("marker.second", "uint16", "Second copy")
field("marker.expected", "uint16", "Must say")
field("marker.good", "bool", "Marker is right")
field("marker.wrong", "bool", "Marker is wrong")

field("part", "string", "Part of an FPDU")
field("part.last_frame", "framenum", "FPDU ends in")
field("segment.starts", "bool", "Segment starts with an FPDU")
field("segment.again", "bool", "Segment was sent again")
field("segment.early", "bool", "Segment has a gap in front")

local function note(name, text, group, severity)
	ef[name] = ProtoExpert.new("mpax.expert." .. name, text,
				   expert.group[group], expert.severity[severity])
end

note("crc", "Wrong CRC", "CHECKSUM", "ERROR")
note("marker", "Wrong marker", "PROTOCOL", "ERROR")
note("pad", "Padding is not zero (RFC 5044 section 4.1)", "PROTOCOL", "WARN")
note("length", "A length that cannot be", "PROTOCOL", "ERROR")
note("key", "Wrong key", "PROTOCOL", "ERROR")
note("startup", "Startup frame that cannot be", "PROTOCOL", "ERROR")
note("turn", "Sent before its turn", "SEQUENCE", "ERROR")
note("cut", "Stream ends inside an FPDU", "SEQUENCE", "WARN")
note("starts", "Segment does not start with an FPDU (RFC 5044 section 5.1)", "SEQUENCE", "NOTE")
note("missing", "Octets were not captured", "SEQUENCE", "WARN")
note("blind", "FPDUs cannot be found", "UNDECODED", "WARN")

mpax.fields, mpax.experts = {}, {}
for _, value in pairs(pf) do
	table.insert(mpax.fields, value)
end
for _, value in pairs(ef) do
	table.insert(mpax.experts, value)
end

mpax.prefs.framings = Pref.string("Framing without startup frames", "",
	"TUF, or MPA that both ends know of: from=ENDPOINT,to=ENDPOINT," ..
	"mode=align|markers|mpa|mpa-markers[,key=HEX][,start=N][,end=N][,period=N]" ..
	"[,crc=off]; several with a blank between them")
mpax.prefs.check_crc = Pref.bool("Check CRCs", true, "Takes most of the time")
mpax.prefs.columns = Pref.bool("Write the columns", true,
	"Protocol and Info say what is in a segment")

-- ---- framings set by the preference ----

local framings = {}

local function endpoint(text)
	local address, port = text:match("^%[(.-)%]:?(%d*)$")
	if not address then
		local _, colons = text:gsub(":", "")
		if colons > 1 then
			address, port = text, ""
		else
			address, port = text:match("^([^:]*):?(%d*)$")
		end
	end
	if not address or address .. port == "" then
		error(("\"%s\" is neither address nor port"):format(text), 0)
	end
	if address ~= "" then
		local kind = address:find(":", 1, true) and Address.ipv6 or Address.ip
		address = tostring(kind(address))
	end
	return { address = address ~= "" and address or nil, port = tonumber(port) }
end

local function octets(text)
	return text:match("^%d+$") and tonumber(text) or
		error(("\"%s\" is no number of octets"):format(text), 0)
end

local readers = {
	from = endpoint, to = endpoint, start = octets, ["end"] = octets,
	period = octets,
	mode = function(text)
		return ({ align = text, markers = text, mpa = text,
			  ["mpa-markers"] = text })[text] or
			error("mode is align, markers, mpa or mpa-markers", 0)
	end,
	key = function(text)
		if #text ~= 12 or text:find("%X") then
			error("key is 12 hexadecimal digits", 0)
		end
		return (text:gsub("..", function(digits)
			return string.char(tonumber(digits, 16))
		end))
	end,
	crc = function(text)
		return text == "off" and text or error("crc can be off", 0)
	end,
}

local function read_framing(text)
	local f = { start = 0 }
	for word in text:gmatch("[^,]+") do
		local name, value = word:match("^(%w+)=(.+)$")
		if not readers[name or ""] then
			error(("\"%s\" is not known"):format(word), 0)
		end
		f[name] = readers[name](value)
	end
	if not f.mode or not (f.from or f.to) then
		error("mode= and one of from= and to= must be there", 0)
	end
	f.kind = f.mode:match("^mpa") or "tuf"
	if f.mode == "markers" then
		f.period = f.period or TUF_PERIOD
	else
		f.period = f.mode == "mpa-markers" and MPA_PERIOD or nil
	end
	return f
end

function mpax.prefs_changed()
	framings = {}
	for text in mpax.prefs.framings:gmatch("%S+") do
		local good, f = pcall(read_framing, text)
		if good then
			table.insert(framings, f)
		else
			report_failure(("mpa.lua: %s (in \"%s\")"):format(f, text))
		end
	end
	table.sort(framings, function(a, b) return a.start < b.start end)
end

local function is_at(told, address, port)
	return not told or ((not told.address or told.address == address) and
			    (not told.port or told.port == port))
end

local function framings_of(src, sport, dst, dport)
	local own = {}
	for _, f in ipairs(framings) do
		if is_at(f.from, src, sport) and is_at(f.to, dst, dport) then
			own[#own + 1] = f
		end
	end
	return own
end

-- ---- positions of octets and markers ----

-- Return the length of "plain" octets with the markers among them, from position pos. A
-- marker before the first octet counts, one after the last octet does not.
local function with_markers(pos, plain, period)
	if not period then
		return plain
	end
	local room = -pos % period
	if plain <= room then
		return plain
	end
	return plain + MARKER_LEN *
		(math.floor((plain - room - 1) / (period - MARKER_LEN)) + 1)
end

-- Call found(kind, offset, length) for the parts of an FPDU from pos. parts is a list
-- of {kind, octets}; kind is "marker" for markers.
local function walk(pos, parts, period, found)
	local off = 0
	for _, part in ipairs(parts) do
		local left = part[2]
		while left > 0 do
			local take = left
			if period then
				if (pos + off) % period == 0 then
					found("marker", off, MARKER_LEN)
					off = off + MARKER_LEN
				end
				take = math.min(left, period - (pos + off) % period)
			end
			found(part[1], off, take)
			off = off + take
			left = left - take
		end
	end
end

-- Return the first octets of text from index first on, without markers.
local function header(text, first, pos, len, period)
	local got = {}
	walk(pos, { { "header", len } }, period, function(kind, off, size)
		if kind == "header" then
			got[#got + 1] = text:sub(first + off, first + off + size - 1)
		end
	end)
	return table.concat(got)
end

local function number(text, first)
	local high, low = text:byte(first, first + 1)
	return high * 256 + low
end

local function is_set(flags, bit)
	return math.floor(flags / bit) % 2 == 1
end

-- ---- packets ----

-- In the first of two passes other dissectors' fields are not available. So the headers
-- are parsed here; known addresses show where they begin.

local address_octets = {}

local function ipv6_octets(text)
	local function groups(part)
		local joined = ""
		for digits in part:gmatch("%x+") do
			local n = tonumber(digits, 16)
			joined = joined .. string.char(math.floor(n / 256), n % 256)
		end
		return joined
	end
	local front, back = text:match("^(.-)::(.*)$")
	if not front then
		return groups(text)
	end
	front, back = groups(front), groups(back)
	return front .. ("\0"):rep(16 - #front - #back) .. back
end

local function octets_of(address)
	local known = address_octets[address]
	if not known then
		local four = { address:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$") }
		known = #four == 4 and string.char(four[1], four[2], four[3], four[4]) or
			address:find(":", 1, true) and ipv6_octets(address) or ""
		address_octets[address] = known
	end
	return known
end

-- For an IP header at an index, return the index of TCP's header, and the number of
-- octets from there to the end of the IP packet (nil: unknown).
local function ipv4_payload(head, first)
	local version, _, total = head:byte(first), nil, number(head, first + 2)
	if math.floor(version / 16) ~= 4 or head:byte(first + 9) ~= 6 or
	   number(head, first + 6) % 0x4000 ~= 0 then
		return nil
	end
	local len = version % 16 * 4
	return first + len, total > 0 and total - len or nil
end

local function ipv6_payload(head, first)
	if math.floor(head:byte(first) / 16) ~= 6 then
		return nil
	end
	local len, kind, at = number(head, first + 4), head:byte(first + 6), first + 40
	local left = len > 0 and len or nil
	while kind == 0 or kind == 43 or kind == 60 do
		if at + 1 > #head then
			return nil
		end
		local size = 8 + 8 * head:byte(at + 1)
		kind, at = head:byte(at), at + size
		left = left and left - size
	end
	return kind == 6 and at or nil, left
end

local HEADERS_MAX = 512

local function long(text, first)
	return number(text, first) * 65536 + number(text, first + 2)
end

-- Return the TCP segment in a packet; if there are several, the innermost.
local function read_segment(tvb, pinfo, src, dst)
	local pair = octets_of(src) .. octets_of(dst)
	local head = tvb:raw(0, math.min(tvb:len(), HEADERS_MAX))
	local v4 = #pair == 8
	local front = v4 and 12 or 8
	local found, at = nil, front
	if not v4 and #pair ~= 32 then
		return nil
	end
	while true do
		at = head:find(pair, at + 1, true)
		if not at then
			break
		end
		local tcp, left = (v4 and ipv4_payload or ipv6_payload)(head, at - front)
		if tcp and tcp + 19 <= #head and number(head, tcp) == pinfo.src_port and
		   number(head, tcp + 2) == pinfo.dst_port then
			found = { tcp = tcp, left = left }
		end
	end
	if not found then
		return nil
	end
	local tcp, flags = found.tcp, head:byte(found.tcp + 13)
	local len = math.floor(head:byte(tcp + 12) / 16) * 4
	local offset = tcp - 1 + len
	local there = math.max(tvb:len() - offset, 0)
	local all = found.left and math.max(found.left - len, 0) or
		math.max(tvb:reported_len() - offset, 0)
	there = math.min(there, all)
	return { seq = long(head, tcp + 4), ack = flags % 32 >= 16 and long(head, tcp + 8) or nil,
		 syn = flags % 4 >= 2, fin = flags % 2 == 1, len = all,
		 payload = there > 0 and tvb(offset, there) or nil }
end

-- ---- connections, and the order of their octets ----

local connections, records = {}, {}

function mpax.init()
	connections, records = {}, {}
end

local function new_way(conn, own)
	return { conn = conn, state = "plain", framings = own, chunks = {}, have = 0,
		 need = 1, offset = 0, early = {}, count = 0, counted = true }
end

-- Return the direction of a segment. Reused addresses and ports, with another SYN
-- number, are another connection.
local function way_of(pinfo, src, dst, seg)
	local name = src .. " " .. pinfo.src_port
	local other = dst .. " " .. pinfo.dst_port
	local key = name < other and name .. " " .. other or other .. " " .. name
	local conn = connections[key]
	local n = conn and conn.name ~= name and 2 or 1
	if conn and seg.syn and conn[n].isn and conn[n].isn ~= seg.seq then
		conn = nil
	end
	if not conn then
		conn = { name = name }
		conn[1] = new_way(conn, framings_of(src, pinfo.src_port, dst, pinfo.dst_port))
		conn[2] = new_way(conn, framings_of(dst, pinfo.dst_port, src, pinfo.src_port))
		conn[1].peer, conn[2].peer = conn[2], conn[1]
		connections[key] = conn
		n = 1
	end
	if seg.syn then
		conn[n].isn = seg.seq
	end
	return conn[n]
end

-- Return a sequence number as an offset in the stream: the nearest to the next octet.
local function unwrap(way, seq)
	local delta = (seq - way.base - way.offset) % 4294967296
	if delta >= 2147483648 then
		delta = delta - 4294967296
	end
	return way.offset + delta
end

local parse

local function fail(rec, name, text)
	rec.notes[#rec.notes + 1] = { name, text }
end

local function buffer(way)
	if #way.chunks ~= 1 then
		way.chunks = { table.concat(way.chunks) }
	end
	return way.chunks[1]
end

local function consume(way, len)
	local rest = buffer(way):sub(len + 1)
	way.chunks, way.have = { rest }, #rest
	way.at = way.at and way.at + len
	way.pos = way.pos and way.pos + len
	way.need = 1
end

-- Process octets in the stream's order. source is the record of the segment that has
-- them, rec the present segment's; at is their offset in the payload.
local function feed(way, data, source, rec, at)
	local framed = way.state == "fpdus"
	if framed and at == 0 then
		source.starts = way.have == 0
	end
	if way.have == 0 then
		way.first_frame = source.frame
	end
	if source == rec then
		way.at = at - way.have
	elseif way.have == 0 then
		way.at = nil
	end
	way.chunks[#way.chunks + 1] = data
	way.have = way.have + #data
	way.offset = way.offset + #data
	parse(way, rec)
	if way.have > 0 and way.state == "fpdus" then
		if #data >= way.have then
			way.first_frame = source.frame
		end
		source.part = { pos = way.pos, have = way.have }
		table.insert(way.parts, source.part)
	end
end

-- Process early segments that are in order now.
local function feed_early(way, rec)
	while way.early[1] and way.early[1].offset <= way.offset do
		local seg = table.remove(way.early, 1)
		local old = way.offset - seg.offset
		if old < #seg.data then
			feed(way, seg.data:sub(old + 1), seg.rec, rec, old)
		end
	end
end

local function keep_early(way, offset, data, rec)
	local n = #way.early
	while n > 0 and way.early[n].offset > offset do
		n = n - 1
	end
	table.insert(way.early, n + 1, { offset = offset, data = data, rec = rec })
	rec.early = true
end

-- Octets that the other end has acknowledged, but the capture lacks, will not follow.
local function skip_missing(way, rec)
	local first = way.early[1]
	if not first or not way.acked or way.acked <= way.offset then
		return
	end
	local missing = first.offset - way.offset
	local part = way.have
	way.chunks, way.have, way.need, way.at = {}, 0, 1, nil
	way.offset = first.offset
	if way.pos then
		way.pos = way.pos + part + missing
	end
	if way.state == "fpdus" or way.state == "wait" then
		way.conn.lost = true
		way.state = way.state == "fpdus" and "lost" or "blind"
		way.counted = false
		fail(rec, "missing", ("%d octets before this segment or before one" ..
			" ahead of it were not captured"):format(missing))
	end
	feed_early(way, rec)
end

-- ---- startup, FPDUs: parsing ----

-- Return whether len octets at the buffer's offset off are all in the present segment's
-- payload.
local function inside(way, rec, off, len)
	return way.at and way.at + off >= 0 and way.at + off + len <= rec.len
end

-- RFC 6581: if the responder's ORD exceeds the initiator's IRD, the initiator may
-- terminate.
local function over(mine, theirs)
	return mine.ird ~= ANY and theirs.ord ~= ANY and theirs.ord > mine.ird
end

-- Return whether the initiator's first FPDU may be without a ULPDU, as an RTR, and
-- whether it must.
local function empty_first(request, reply)
	local mine, theirs = request.enhanced, reply.enhanced
	local may = mine and theirs and mine.a and theirs.a and theirs.b
	return may, may and mine.b and not (mine.c and theirs.c or mine.d and theirs.d or
					    over(mine, theirs))
end

local function asked_for(frame)
	return frame.rev >= 2 and is_set(frame.flags, S)
end

-- Return violations of RFC 6581 in a reply to this request. The judge (rfc6581.py) uses
-- the same words.
local function enhanced_problems(request, reply)
	local found = {}
	local function add(text, section, ...)
		found[#found + 1] = (text .. " (RFC 6581 section " .. section .. ")"):format(...)
	end
	if asked_for(request) ~= asked_for(reply) then
		add("%s reply to a request that is not", "10",
		    asked_for(request) and "a plain" or "an enhanced")
	end
	local mine, theirs = request.enhanced, reply.enhanced
	if not mine or not theirs then
		return found
	end
	if mine.a ~= theirs.a then
		add("A is %d in the Request Frame, %d in the Reply Frame", "9.2",
		    mine.a and 1 or 0, theirs.a and 1 or 0)
	end
	if theirs.a and not (theirs.b or theirs.c or theirs.d) then
		add("Reply Frame: A without an RTR", "9.2")
	end
	if mine.ird == ANY and theirs.ord ~= ANY then
		add("the responder's ORD is %#x where the initiator's IRD is 0x3fff", "9.1",
		    theirs.ord)
	end
	if mine.ord == ANY and theirs.ird ~= ANY then
		add("the responder's IRD is %#x where the initiator's ORD is 0x3fff", "9.1",
		    theirs.ird)
	end
	if over(mine, theirs) then
		add("the responder's ORD %d is over the initiator's IRD %d", "9.1", theirs.ord,
		    mine.ird)
	end
	return found
end

-- Both frames are complete; this segment completes the later one.
local function judge_startup(conn, rec, last)
	local request, reply = conn.request, conn.reply
	for _, text in ipairs(conn.rejected and {} or enhanced_problems(request, reply)) do
		fail(rec, "startup", text)
	end
	if reply.rev ~= request.rev then
		fail(rec, "startup", ("Rev %d in the Request Frame, %d in the Reply Frame " ..
			"(RFC 5044 section 7.1.1)"):format(request.rev, reply.rev))
	end
	if conn.lost then
		return
	end
	if reply.begun < request.frame then
		fail(rec, "turn", "the Reply Frame begins before the Request Frame has ended " ..
			"(RFC 5044 section 7.1.2)")
	end
	if last == reply and not conn.rejected and request.way.have > 0 then
		fail(rec, "turn", "the initiator's FPDUs begin before the Reply Frame has " ..
			"ended (RFC 5044 section 7.1.2)")
	end
end

local function decide(conn, rec, last)
	local request, reply = conn.request, conn.reply
	if not request or not reply then
		return false
	end
	conn.rejected = is_set(reply.flags, R)
	judge_startup(conn, rec, last)
	for n, frame in ipairs({ request, reply }) do
		local way, other = frame.way, n == 1 and reply or request
		-- One end may have had to wait, with octets that are FPDUs.
		way.pos, way.parts, way.need = 0, {}, 1
		way.mode = { kind = "mpa", empty = n == 1 and empty_first(request, reply) and "first",
			     period = is_set(other.flags, M) and MPA_PERIOD or nil,
			     crc = is_set(request.flags, C) or is_set(reply.flags, C) }
		way.state = "fpdus"
		way.responder = n == 2
	end
	if conn.rejected then
		request.way.state, reply.way.state = "plain", "plain"
	end
	return true
end

local function startup_frame(way, rec, text, at)
	-- Without earlier octets the segment in which the frame began is known.
	local begun = way.offset == way.have and way.first_frame or rec.frame
	local frame = { way = way, frame = rec.frame, begun = begun, flags = text:byte(17),
			rev = text:byte(18), pd_length = number(text, 19) }
	local conn = way.conn
	if frame.rev >= 2 and is_set(frame.flags, S) and #text >= STARTUP_LEN + 4 then
		local ird, ord = number(text, 21), number(text, 23)
		frame.enhanced = { a = is_set(ird, 0x8000), b = is_set(ird, 0x4000),
				   c = is_set(ord, 0x8000), d = is_set(ord, 0x4000),
				   ird = ird % 0x4000, ord = ord % 0x4000 }
	end
	frame.name = text:sub(1, KEY_LEN) == REQUEST and "Request" or "Reply"
	rec.runs[#rec.runs + 1] = { way = way, startup = frame, text = text, at = at }
	if frame.name == "Reply" then
		conn.reply = frame
	else
		conn.request = frame
		if conn.rejected then
			conn.reply, conn.rejected = nil, nil
		end
	end
	way.state = "wait"
	return decide(conn, rec, frame)
end

local steps = {}

function steps.plain(way, rec)
	local text = buffer(way)
	local told = way.framings[1]
	if told then
		local start = way.offset - way.have
		local skip = math.min(math.max(told.start - start, 0), way.have)
		consume(way, skip)
		if start + skip < told.start then
			return false
		end
		table.remove(way.framings, 1)
		way.mode = { kind = told.kind, period = told.period, key = told.key,
			     crc = told.crc ~= "off", empty = "any" }
		way.limit = told["end"] and told["end"] - told.start
		way.pos, way.parts, way.state = 0, {}, "fpdus"
		way.first_frame = way.first_frame or rec.frame
		return true
	end
	local request = text:find(REQUEST, 1, true)
	local reply = text:find(REPLY, 1, true)
	local at = math.min(request or math.huge, reply or math.huge)
	if at == math.huge then
		-- The octets may begin the key.
		if way.have >= KEY_LEN then
			consume(way, way.have - KEY_LEN + 1)
		end
		way.need = KEY_LEN
		return false
	end
	if at > 1 then
		consume(way, at - 1)
		text = buffer(way)
	end
	rec.part_startup = true
	if #text < STARTUP_LEN then
		way.need = STARTUP_LEN
		return false
	end
	local len = STARTUP_LEN + number(text, 19)
	if #text < len then
		way.need = len
		return false
	end
	local decided = startup_frame(way, rec, text:sub(1, len),
				      inside(way, rec, 0, len) and way.at or nil)
	consume(way, len)
	rec.part_startup = nil
	if decided then
		way.pos, way.peer.pos = 0, 0
		way.peer.at = nil	-- its octets are not in this segment
		parse(way.peer, rec)
	end
	return true
end

function steps.wait(way, rec)
	way.need = way.have + 1
	if way.have > WAIT_MAX then
		way.state = "blind"
		fail(rec, "blind", "The other end's startup frame is not in the capture: " ..
			"whether there are markers is not known")
		return true
	end
	rec.waits = true
	return false
end

function steps.blind(way)
	consume(way, way.have)
	return false
end

-- For the FPDU at offset off of text and position pos of the stream, return (octets,
-- ULPDU_Length, whether the key is right); with too few octets (the number needed); or
-- (nil, the error).
local function measure(mode, pos, text, off)
	local tuf = mode.kind == "tuf"
	local said_len = tuf and TUF_HEADER or 2
	local head = with_markers(pos, said_len, mode.period)
	if #text - off < head then
		return head
	end
	local said = header(text, off + 1, pos, said_len, mode.period)
	local length = number(said, 1)
	if tuf then
		if length == 0 then
			return nil, "Length 0 cannot be"
		end
		mode.key = mode.key or said:sub(3)
		return with_markers(pos, TUF_HEADER + length, mode.period), length,
			said:sub(3) == mode.key
	end
	if length > ULPDU_MAX or length == 0 and
	   not (mode.empty == "any" or mode.empty and pos == 0) then
		return nil, ("ULPDU_Length %d cannot be (RFC 5044 section 3)"):format(length)
	end
	local pad = -(2 + length) % 4
	return with_markers(pos, 2 + length + pad + CRC_LEN, mode.period), length, true
end

local function crc_of(text, first, size)
	local a, b, c, d = text:byte(first + size - 4, first + size - 1)
	local computed = crc32c(text, first, first + size - 5)
	return computed == a + b * 256 + c * 65536 + d * 16777216, computed
end

-- Return "g" good, "b" bad, "o" off, "u" not checked, or "n" none.
local function verdict(mode, text, off, size)
	if mode.kind == "tuf" then
		return "n"
	elseif not mode.crc then
		return "o"
	elseif not mpax.prefs.check_crc then
		return "u"
	end
	return crc_of(text, off + 1, size) and "g" or "b"
end

-- Return the right value of the marker at offset off of an FPDU. head: offset of the
-- header; following: offset of the next header.
local function expected(mode, off, head, following)
	if off < head then
		return 0
	end
	return mode.kind == "tuf" and following - off - MARKER_LEN or off - head
end

local function edges(mode, pos, size)
	local head = mode.period and pos % mode.period == 0 and MARKER_LEN or 0
	local following = size
	if mode.period and (pos + size) % mode.period == 0 then
		following = following + MARKER_LEN
	end
	return head, following
end

-- Return the number of wrong markers in the FPDU at offset first. A marker inside TUF's
-- header points to the next header.
local function wrong_markers(mode, pos, text, first, size)
	if not mode.period then
		return 0
	end
	local head, following = edges(mode, pos, size)
	local wrong = 0
	for off = -pos % mode.period, size - 1, mode.period do
		local want = expected(mode, off, head, following)
		local one, other = number(text, first + off + 1), number(text, first + off + 3)
		if other ~= want or one ~= (mode.kind == "tuf" and want or 0) then
			wrong = wrong + 1
		end
	end
	return wrong
end

local function check_turn(way, rec)
	local other = way.peer
	if way.responder and way.count == 0 and other.count == 0 and
	   other.state == "fpdus" and not way.conn.lost then
		fail(rec, "turn", "The responder has sent an FPDU before the " ..
			"initiator's first (RFC 5044 section 7.1.2 rule 4)")
	end
end

-- RFC 6581: check an RTR without ULPDU, if both ends agree on no other.
local function check_rtr(way, rec, length)
	local conn = way.conn
	if way.count > 0 or not way.counted or length == 0 or way.responder or
	   not conn.request or not conn.reply then
		return
	end
	local _, must = empty_first(conn.request, conn.reply)
	if must then
		fail(rec, "turn", "the first FPDU is not the RTR that was agreed on, one " ..
			"without a ULPDU (RFC 6581 section 9.2)")
	end
end

local function end_parts(way, rec)
	for _, part in ipairs(way.parts) do
		part.last_frame = rec.frame
	end
	way.parts = {}
end

-- A run is a series of contiguous FPDUs that a segment displays. FPDU octets outside of
-- its payload are stored.
local function close_run(way, text, run, off)
	if not run then
		return
	end
	run.len = off - run.off
	run.verdicts = table.concat(run.verdicts)
	if run.at then
		run.at = run.at + run.off
	else
		run.text = text:sub(run.off + 1, off)
	end
end

local function add_fpdu(way, rec, text, off, size, run)
	local within = inside(way, rec, off, size) or false
	if not run or within ~= (run.at ~= nil) then
		close_run(way, text, run, off)
		run = { mode = way.mode, off = off, pos = way.pos + off,
			number = way.counted and way.count or nil,
			at = within and way.at or nil, verdicts = {},
			first_frame = way.first_frame }
		rec.runs[#rec.runs + 1] = run
	end
	local mark = verdict(way.mode, text, off, size)
	run.verdicts[#run.verdicts + 1] = mark
	rec.bad = rec.bad + (mark == "b" and 1 or 0)
	rec.wrong = rec.wrong + wrong_markers(way.mode, way.pos + off, text, off, size)
	return run
end

-- Return whether octets before the CRC are not zero. One may be a marker's: the tree
-- checks that.
local function odd_pad(mode, text, off, size, length)
	local pad = -(2 + length) % 4
	local last = off + size - CRC_LEN
	return mode.kind == "mpa" and pad > 0 and
		text:sub(last - pad + 1, last):find("[^%z]") ~= nil
end

function steps.fpdus(way, rec)
	local text, off, run, stop = buffer(way), 0, nil, nil
	local limit = way.limit and way.limit - way.pos
	way.need = 1
	while off < #text do
		if limit and off >= limit then
			stop = "plain"
			break
		end
		local size, length, key_good = measure(way.mode, way.pos + off, text, off)
		if not size then
			fail(rec, "length", ("%s (position %d): what follows are no FPDUs")
				:format(length, way.pos + off))
			stop = "lost"
			break
		end
		if #text - off < size or not length then
			way.need = size
			break
		end
		check_turn(way, rec)
		check_rtr(way, rec, length)
		run = add_fpdu(way, rec, text, off, size, run)
		rec.odd = rec.odd or not key_good or odd_pad(way.mode, text, off, size, length)
		rec.fpdus, rec.octets = rec.fpdus + 1, rec.octets + length
		way.count = way.count + 1
		if #way.parts > 0 then
			end_parts(way, rec)
		end
		off = off + size
		way.first_frame = rec.frame
	end
	if not stop and limit and off >= limit then
		stop = "plain"
	end
	close_run(way, text, run, off)
	local need = way.need
	consume(way, off)
	way.need = need
	way.state = stop or way.state
	return stop ~= nil
end

-- After missing octets, or octets that are no FPDU, find an FPDU with a right CRC or
-- key that begins where a segment begins or a marker points.
local function found_again(way, text, off)
	if off < 0 or off >= #text then
		return false
	end
	local size, length, key_good = measure(way.mode, way.pos + off, text, off)
	if not size or not length or #text - off < size then
		return false
	end
	if way.mode.kind == "tuf" then
		return key_good
	end
	return way.mode.crc and crc_of(text, off + 1, size)
end

function steps.lost(way)
	local text = buffer(way)
	local off = found_again(way, text, 0) and 0
	if not off and way.mode.kind == "mpa" and way.mode.period then
		local marker = -way.pos % MPA_PERIOD
		while not off and marker + MARKER_LEN <= #text do
			local pointer = number(text, marker + 3)
			local start = pointer == 0 and marker or marker - pointer
			off = found_again(way, text, start) and start
			marker = marker + MPA_PERIOD
		end
	end
	consume(way, off or way.have)
	if off then
		way.state, way.counted = "fpdus", false
	end
	return off and true or false
end

function parse(way, rec)
	while way.have > 0 and way.have >= way.need and steps[way.state](way, rec) do
		rec.used = true
	end
end

-- ---- a segment, seen for the first time ----

local function take_ack(way, ack)
	if way.base then
		local acked = unwrap(way, ack)
		if not way.acked or acked > way.acked then
			way.acked = acked
		end
	end
end

local function take_data(way, rec, data, offset)
	local old = way.offset - offset
	if old >= #data then
		rec.again = true
		return
	end
	rec.again = old > 0
	if old < 0 then
		keep_early(way, offset, data, rec)
		return
	end
	feed(way, data:sub(old + 1), rec, rec, old)
	feed_early(way, rec)
end

local function first_look(tvb, pinfo)
	local src, dst = tostring(pinfo.src), tostring(pinfo.dst)
	local seg = read_segment(tvb, pinfo, src, dst)
	if not seg then
		return nil
	end
	local way = way_of(pinfo, src, dst, seg)
	local seq, len = seg.seq, seg.len
	local data = seg.payload and seg.payload:raw() or ""
	local rec = { frame = pinfo.number, way = way, len = #data, runs = {}, notes = {},
		      fpdus = 0, octets = 0, bad = 0, wrong = 0 }

	if seg.payload then
		rec.offset = seg.payload:offset()
	end
	if seg.syn then
		seq = (seq + 1) % 4294967296
	end
	if not way.base and (seg.syn or len > 0) then
		way.base = seq
	end
	if seg.ack then
		take_ack(way.peer, seg.ack)
	end
	if len > 0 then
		local framed = way.state ~= "plain"
		local offset = unwrap(way, seq)
		take_data(way, rec, data, offset)
		if #data < len then
			fail(rec, "missing", ("%d octets of this segment were not captured: " ..
				"capture with -s 0"):format(len - #data))
		end
		rec.used = rec.used or framed
	end
	skip_missing(way, rec)
	skip_missing(way.peer, rec)
	if seg.fin and way.state == "fpdus" and way.have > 0 and
	   not way.early[1] then
		fail(rec, "cut", ("The stream ends inside an FPDU, %d octets of it are there")
			:format(way.have))
	end
	rec.used = rec.used or #rec.runs > 0 or #rec.notes > 0 or rec.part_startup
	return rec.used and rec or nil
end

-- ---- display ----

local function big(n)
	return UInt64.new(n % 4294967296, math.floor(n / 4294967296))
end

local function generated(tree, name, ...)
	local item = tree:add(pf[name], ...)
	item:set_generated()
	return item
end

local function show_enhanced(tree, range)
	local ird, ord = range(0, 2), range(2, 2)
	for _, name in ipairs({ "a", "b", "ird" }) do
		tree:add(pf["enhanced." .. name], ird)
	end
	for _, name in ipairs({ "c", "d", "ord" }) do
		tree:add(pf["enhanced." .. name], ord)
	end
end

local function startup_problems(frame)
	local found = {}
	local function add(text, section)
		found[#found + 1] = ("%s Frame: %s (RFC %s)"):format(frame.name, text,
			section or "5044 section 7.1.1")
	end
	local reserved = frame.flags % (frame.rev < 2 and 0x20 or 0x10)
	if reserved ~= 0 then
		add(("reserved bits 0x%02x set"):format(reserved))
	end
	if frame.name == "Request" and is_set(frame.flags, R) then
		add("R set in a Request Frame")
	end
	if frame.pd_length > PRIVATE_MAX then
		add(("PD_Length %d is over 512"):format(frame.pd_length))
	end
	if frame.rev > 2 then
		add(("Rev %d is none that exists"):format(frame.rev))
	end
	local e = frame.enhanced
	if asked_for(frame) and not e then
		add("S is set, with less than 4 octets of private data", "6581 section 6")
	elseif e and not e.a and (e.b or e.c or e.d) then
		add("B, C or D without A", "6581 section 9.2")
	end
	return found
end

local function startup_text(frame)
	local said = {}
	for _, flag in ipairs({ { M, "M" }, { C, "C" }, { R, "R" }, { S, "S" } }) do
		if is_set(frame.flags, flag[1]) then
			said[#said + 1] = flag[2]
		end
	end
	return ("%s Frame, Rev %d%s, %d octets of private data"):format(frame.name,
		frame.rev, #said > 0 and ", " .. table.concat(said, " ") or "",
		frame.pd_length)
end

local function show_startup(tree, frame, range)
	local item = tree:add(pf.startup, range(), frame.name)
	item:set_text(startup_text(frame))
	item:add(pf["startup.key"], range(0, KEY_LEN))
	local flags = item:add(pf["startup.flags"], range(16, 1))
	for _, name in ipairs({ "m", "c", "r", "s", "res" }) do
		flags:add(pf["startup." .. name], range(16, 1))
	end
	item:add(pf["startup.rev"], range(17, 1))
	item:add(pf["startup.pd_length"], range(18, 2))
	local at = STARTUP_LEN
	if frame.enhanced then
		show_enhanced(item, range(at, 4))
		at = at + 4
	end
	if range:len() > at then
		item:add(pf["startup.private"], range(at))
	end
	for _, text in ipairs(startup_problems(frame)) do
		item:add_proto_expert_info(ef.startup, text)
	end
end

local function show_marker(tree, mode, range, position, want)
	local tuf = mode.kind == "tuf"
	local first, second = range(0, 2):uint(), range(2, 2):uint()
	local good = second == want and first == (tuf and want or 0)
	local item = tree:add(pf.marker, range(), good and "right" or "wrong")
	item:set_text(("Marker at %d: %s %d, %s"):format(position,
		tuf and "octets to the next header" or "FPDUPTR", second,
		good and "right" or "wrong"))
	generated(item, "marker.position", range(), big(position))
	item:add(pf[tuf and "marker.first" or "marker.reserved"], range(0, 2))
	item:add(pf[tuf and "marker.second" or "marker.fpduptr"], range(2, 2))
	generated(item, "marker.expected", range(2, 2), want)
	generated(item, good and "marker.good" or "marker.wrong", range(), true)
	if not good then
		item:add_proto_expert_info(ef.marker,
			("Marker at %d says 0x%04x %d, must say %d %d%s"):format(position, first,
				second, tuf and want or 0, want,
				tuf and "" or " (RFC 5044 section 4.3)"))
	end
	return good
end

local VERDICTS = { g = "good", b = "bad", o = "off", u = "not checked" }

local function show_crc(tree, range, text, mark)
	local octets_range = range(#text - CRC_LEN, CRC_LEN)
	local item = tree:add_le(pf.crc, octets_range)
	local status = VERDICTS[mark]
	generated(item, "crc.status", octets_range, status)
	item:append_text(" (" .. status .. ")")
	if mark == "g" then
		generated(item, "crc.good", octets_range, true)
	elseif mark == "b" then
		local _, computed = crc_of(text, 1, #text)
		generated(item, "crc.bad", octets_range, true)
		generated(item, "crc.computed", octets_range, computed)
		item:add_proto_expert_info(ef.crc,
			("Wrong CRC, must be 0x%08x (RFC 5044 section 4.4)"):format(computed))
	end
	return status
end

local function parts_of(mode, length)
	if mode.kind == "tuf" then
		return { { "length", 2 }, { "key", TUF_HEADER - 2 }, { "ulpdu", length } }
	end
	return { { "length", 2 }, { "ulpdu", length }, { "pad", -(2 + length) % 4 },
		 { "crc", CRC_LEN } }
end

-- Show Length, Key, ULPDU, pad and markers of an FPDU. Return the number of markers,
-- and of wrong ones.
local function show_parts(item, mode, pos, length, range, text)
	local head, following = edges(mode, pos, #text)
	local markers, wrong, length_shown = 0, 0, false
	walk(pos, parts_of(mode, length), mode.period, function(kind, off, len)
		local octets_range = range(off, len)
		if kind == "marker" then
			local want = expected(mode, off, head, following)
			markers = markers + 1
			if not show_marker(item, mode, octets_range, pos + off, want) then
				wrong = wrong + 1
			end
		elseif kind == "length" then
			-- A marker may be between Length's two octets.
			if not length_shown then
				item:add(pf["fpdu.length"], octets_range, length)
			end
			length_shown = true
		elseif kind == "key" then
			item:add(pf["fpdu.key"], octets_range)
		elseif kind ~= "crc" then
			local part = item:add(pf[kind], octets_range)
			if kind == "pad" and text:sub(off + 1, off + len):find("[^%z]") then
				part:add_proto_expert_info(ef.pad)
			end
		end
	end)
	return markers, wrong
end

local function show_fpdu(tree, rec, run, n, pos, length, range, text, key_good)
	local item = tree:add(pf.fpdu, range(), run.mode.kind)
	local title = ("at %d, %d octets, ULPDU %d"):format(pos, #text, length)
	if run.number then
		local count = run.number + n - 1
		generated(item, "fpdu.number", range(), big(count))
		title = ("%d %s"):format(count, title)
	end
	generated(item, "fpdu.position", range(), big(pos))
	generated(item, "fpdu.size", range(), #text)
	if run.text and n == 1 and run.first_frame ~= rec.frame then
		generated(item, "fpdu.first_frame", range(), run.first_frame)
	end
	local markers, wrong = show_parts(item, run.mode, pos, length, range, text)
	if run.mode.period then
		title = ("%s, %d marker%s%s"):format(title, markers, markers == 1 and "" or "s",
			wrong > 0 and (", %d WRONG"):format(wrong) or "")
	end
	if run.mode.kind == "mpa" then
		title = ("%s, CRC %s"):format(title,
			show_crc(item, range, text, run.verdicts:sub(n, n)))
	elseif not key_good then
		item:add_proto_expert_info(ef.key)
		title = title .. ", wrong key"
	end
	item:set_text("FPDU " .. title)
end

local function show_run(tree, rec, run, payload)
	local range = run.at and payload(run.at, run.len or #run.text) or
		ByteArray.new(run.text, true):tvb("MPA stream")()
	if run.startup then
		show_startup(tree, run.startup, range)
		return
	end
	local text = run.text or range:raw()
	local off = 0
	for n = 1, #run.verdicts do
		local size, length, key_good = measure(run.mode, run.pos + off, text, off)
		show_fpdu(tree, rec, run, n, run.pos + off, length, range(off, size),
			text:sub(off + 1, off + size), key_good)
		off = off + size
	end
end

local function show_agreed(tree, conn)
	local request, reply = conn.request, conn.reply
	if request then
		generated(tree, "conn.request", request.frame)
	end
	if reply then
		generated(tree, "conn.reply", reply.frame)
	end
	if not request or not reply then
		return
	end
	generated(tree, "conn.rejected", conn.rejected)
	generated(tree, "conn.rev", reply.rev)
	generated(tree, "conn.crc", is_set(request.flags, C) or is_set(reply.flags, C))
	generated(tree, "conn.markers_out", is_set(reply.flags, M))
	generated(tree, "conn.markers_in", is_set(request.flags, M))
	local mine, theirs = request.enhanced, reply.enhanced
	if not mine or not theirs then
		return
	end
	generated(tree, "conn.p2p", mine.a and theirs.a)
	if mine.a and theirs.a then
		local names = {}
		for _, flag in ipairs({ { "b", "FPDU" }, { "c", "Write" }, { "d", "Read" } }) do
			if mine[flag[1]] and theirs[flag[1]] then
				names[#names + 1] = flag[2]
			end
		end
		generated(tree, "conn.rtr", #names > 0 and table.concat(names, " ") or "none")
	end
	generated(tree, "conn.read_out", math.min(mine.ord, theirs.ird))
	generated(tree, "conn.read_in", math.min(mine.ird, theirs.ord))
end

local function show_segment(tree, rec)
	if rec.starts ~= nil then
		local item = generated(tree, "segment.starts", rec.starts)
		if not rec.starts then
			item:add_proto_expert_info(ef.starts)
		end
	end
	if rec.again then
		generated(tree, "segment.again", true)
	end
	if rec.early then
		generated(tree, "segment.early", true)
	end
	if rec.part then
		local item = tree:add(pf.part, "part")
		item:set_text(("Part of the FPDU at %d, %d octets of it so far")
			:format(rec.part.pos, rec.part.have))
		if rec.part.last_frame then
			generated(item, "part.last_frame", rec.part.last_frame)
		end
	end
end

local function info_text(rec)
	local said = {}
	for _, run in ipairs(rec.runs) do
		if run.startup then
			said[#said + 1] = startup_text(run.startup)
		end
	end
	if rec.fpdus > 0 then
		said[#said + 1] = ("%d FPDU%s, %d octets of ULPDUs"):format(rec.fpdus,
			rec.fpdus == 1 and "" or "s", rec.octets)
	elseif rec.part then
		said[#said + 1] = "part of an FPDU"
	elseif rec.early then
		said[#said + 1] = "behind a gap"
	elseif rec.again then
		said[#said + 1] = "sent again"
	end
	if rec.bad > 0 then
		said[#said + 1] = ("%d WRONG CRC"):format(rec.bad)
	end
	if rec.wrong > 0 then
		said[#said + 1] = ("%d WRONG MARKERS"):format(rec.wrong)
	end
	for _, what in ipairs(rec.notes) do
		said[#said + 1] = what[2]
	end
	return table.concat(said, "; ")
end

local function show_columns(pinfo, kind, text)
	if mpax.prefs.columns and text ~= "" then
		pinfo.cols.protocol = kind
		pinfo.cols.info = ("%d \xe2\x86\x92 %d %s"):format(pinfo.src_port,
			pinfo.dst_port, text)
	end
end

-- Return whether a filter or a column uses a field. The result is cached until the
-- packets are read from the first one again.
local asked, asked_at = false, math.huge

local function fields_asked(number_now, root)
	if number_now <= asked_at then
		asked = false
		for _, one in pairs(pf) do
			asked = asked or root:referenced(one)
		end
	end
	asked_at = number_now
	return asked
end

-- A tree that is neither displayed nor filtered is left out, except for errors.
local function tree_wanted(rec, pinfo, root)
	return fields_asked(pinfo.number, root) or root.visible or rec.odd or
		rec.bad + rec.wrong > 0 or #rec.notes > 0 or rec.starts == false or
		rec.runs[1] and rec.runs[1].startup
end

local function show(rec, pinfo, root, payload, tvb)
	local tuf = rec.way.mode and rec.way.mode.kind == "tuf"
	local text = info_text(rec)
	show_columns(pinfo, tuf and "TUF" or "MPA", text)
	local tree = root:add(mpax, payload or tvb(0, 0))
	if not tree_wanted(rec, pinfo, root) then
		return
	end
	tree:set_text((tuf and "TUF" or "MPA") .. (text ~= "" and ", " .. text or ""))
	for _, run in ipairs(rec.runs) do
		show_run(tree, rec, run, payload)
	end
	for _, what in ipairs(rec.notes) do
		tree:add_proto_expert_info(ef[what[1]], what[2])
	end
	show_segment(tree, rec)
	if rec.way.conn.request or rec.way.conn.reply then
		local agreed = tree:add(mpax, tvb(0, 0))
		agreed:set_text("The connection")
		agreed:set_generated()
		show_agreed(agreed, rec.way.conn)
	end
end

function mpax.dissector(tvb, pinfo, root)
	local rec = records[pinfo.number]
	if not pinfo.visited then
		rec = first_look(tvb, pinfo)
		records[pinfo.number] = rec
	end
	if rec then
		show(rec, pinfo, root, rec.offset and tvb(rec.offset, rec.len), tvb)
	end
end

register_postdissector(mpax)
