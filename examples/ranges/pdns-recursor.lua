-- PowerDNS Recursor answers from a store of `millstream ranges build`:
--
--   4.3.2.1.geo.example.  TXT   the value of the range that 1.2.3.4 lies in: JSON
--   4.3.2.1.geo.example.  A     127.0.0.2 if it lies in a range
--
-- An address in no range is NXDOMAIN. The labels are the address backwards as in reverse zones: four numbers for IPv4,
-- 32 hex digits for IPv6. In recursor.conf: lua-dns-script=/etc/powerdns/ranges/pdns-recursor.lua

-- Where lookup.lua and decode.lua are. The recursor does not tell a script where it lies itself.
package.path = "/etc/powerdns/ranges/?.lua;" .. package.path

local ZONE = "geo.example."
local TTL = 60

-- An error while this file is loaded would leave the recursor running without it, and it would ask the Internet about
-- our zone. So the store is opened by the first question, where an error becomes SERVFAIL.
local ranges = require("lookup").open(os.getenv("RANGES_STORE") or "/var/lib/millstream/ranges")

-- The address that a name asks for, or nil.
local function address_of(name)
    local labels = name:sub(1, -#ZONE - 2)
    local d, c, b, a = labels:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
    if a then
        return ("%s.%s.%s.%s"):format(a, b, c, d)
    end
    local digits = labels:gsub("%.", "")
    if #digits == 32 and #labels == 63 and digits:find("^%x+$") then
        return digits:reverse():gsub("%x%x%x%x", ":%0"):sub(2)
    end
    return nil
end

-- The text of a TXT record: strings of at most 255 bytes.
local function quoted(text)
    local strings = {}
    for at = 1, #text, 255 do
        local part = text:sub(at, at + 254):gsub("%W", function(c) return ("\\%03d"):format(c:byte()) end)
        strings[#strings + 1] = '"' .. part .. '"'
    end
    return table.concat(strings, " ")
end

function preresolve(dq)
    local name = dq.qname:toString():lower()
    if name ~= ZONE and name:sub(-#ZONE - 1) ~= "." .. ZONE then
        -- The recursor resolves all other names as usual.
        return false
    end
    -- Otherwise the packet cache would go on answering from an old generation.
    dq.variable = true
    dq.rcode = pdns.NOERROR
    local address = address_of(name)
    if address then
        local value = ranges:get(address)
        if not value then
            dq.rcode = pdns.NXDOMAIN
        elseif dq.qtype == pdns.TXT then
            dq:addAnswer(pdns.TXT, quoted(value), TTL)
        elseif dq.qtype == pdns.A then
            dq:addAnswer(pdns.A, "127.0.0.2", TTL)
        end
    end
    return true
end
