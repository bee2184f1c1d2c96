-- Takes a value of a store apart. For Lua 5.1 to 5.4 and LuaJIT, with lua-cjson.
--
--   local last, members = require("decode")(value)
--   last      the last address of the range as 4 or 16 bytes
--   members   the JSON object as a table, with its member "end"
--
-- As a program it reads values, one a line, and prints each last address with the other members:
--
--   lua5.4 decode.lua <VALUES

local cjson = require("cjson")

-- The last address is stored in hex and not as raw bytes, because JSON holds characters. cjson turns the character
-- \u00ff into the two bytes c3 bf, so that the end of a range with an octet above 127 would be wrong. Only an address
-- that equals a key would still be found.
local function decode(value)
    local members = cjson.decode(value)
    -- `members.end` would not compile: `end` is a keyword.
    local hex = type(members) == "table" and members["end"]
    if type(hex) ~= "string" or not hex:find("^%x+$") or (#hex ~= 8 and #hex ~= 32) then
        error("the value has no end in hex: " .. value:sub(1, 100), 2)
    end
    local last = hex:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
    return last, members
end

if arg and arg[0] and arg[0]:find("decode%.lua$") then
    for value in io.lines() do
        local last, members = decode(value)
        local text
        if #last == 4 then
            text = ("%d.%d.%d.%d"):format(last:byte(1, 4))
        else
            text = (":%02x%02x"):rep(8):format(last:byte(1, 16)):sub(2)
        end
        members["end"] = nil
        io.write(text, "\t", cjson.encode(members), "\n")
    end
end

return decode
