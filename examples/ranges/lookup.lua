-- Finds the range of an address in a store of `millstream ranges build`. For LuaJIT, with liblmdb and lua-cjson.
--
--   local ranges = require("lookup").open("/var/lib/millstream/ranges")
--   local value, members = ranges:get("1.0.128.7")   -- the stored JSON, and the same as a table; nil if there is none
--
-- As a program it reads addresses, one a line, and prints each with the value of its range:
--
--   luajit lookup.lua STORE <ADDRESSES

local decode = require("decode")
local ffi = require("ffi")

ffi.cdef [[
typedef struct MDB_env MDB_env;
typedef struct MDB_txn MDB_txn;
typedef struct MDB_cursor MDB_cursor;
typedef unsigned int MDB_dbi;
typedef struct { size_t mv_size; void *mv_data; } MDB_val;
int mdb_env_create(MDB_env **env);
int mdb_env_set_maxdbs(MDB_env *env, MDB_dbi dbs);
int mdb_env_open(MDB_env *env, const char *path, unsigned int flags, unsigned int mode);
void mdb_env_close(MDB_env *env);
int mdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned int flags, MDB_txn **txn);
void mdb_txn_abort(MDB_txn *txn);
int mdb_dbi_open(MDB_txn *txn, const char *name, unsigned int flags, MDB_dbi *dbi);
int mdb_cursor_open(MDB_txn *txn, MDB_dbi dbi, MDB_cursor **cursor);
void mdb_cursor_close(MDB_cursor *cursor);
int mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, int op);
char *mdb_strerror(int err);
int inet_pton(int family, const char *text, void *address);
int memcmp(const void *a, const void *b, size_t size);
ssize_t readlink(const char *path, char *target, size_t size);
]]
-- With its version: the name without one comes only with the headers (Debian: liblmdb-dev).
local lmdb, C = ffi.load("liblmdb.so.0"), ffi.C

local MDB_NOSUBDIR, MDB_RDONLY, MDB_NOLOCK = 0x4000, 0x20000, 0x400000
local MDB_LAST, MDB_PREV, MDB_SET_RANGE = 6, 12, 17
local MDB_NOTFOUND = -30798
-- The numbers of Linux.
local AF_INET, AF_INET6 = 2, 10

local function check(code, what)
    if code ~= 0 then
        error(what .. ": " .. ffi.string(lmdb.mdb_strerror(code)), 0)
    end
end

local function close(generation)
    for _, cursor in pairs(generation.cursors) do
        lmdb.mdb_cursor_close(cursor)
    end
    if generation.txn then
        lmdb.mdb_txn_abort(generation.txn)
    end
    lmdb.mdb_env_close(generation.env)
end

-- A generation is one file (NOSUBDIR) that never changes. So it is read without a lock file (NOLOCK), in one
-- transaction for as long as it is open. LMDB must not open a file twice in a process, but only because of its locks:
-- each thread of PowerDNS Recursor may open the file for itself.
local function open_generation(path)
    local env, txn = ffi.new("MDB_env *[1]"), ffi.new("MDB_txn *[1]")
    check(lmdb.mdb_env_create(env), path)
    local generation = { env = env[0], cursors = {} }
    local opened, problem = pcall(function()
        check(lmdb.mdb_env_set_maxdbs(env[0], 2), path)
        check(lmdb.mdb_env_open(env[0], path, MDB_NOSUBDIR + MDB_RDONLY + MDB_NOLOCK, 0), path)
        check(lmdb.mdb_txn_begin(env[0], nil, MDB_RDONLY, txn), path)
        generation.txn = txn[0]
        -- Each family has its own database. Among keys of the other, one step back would end at the wrong entry.
        for bytes, name in pairs({ [4] = "v4", [16] = "v6" }) do
            local dbi, cursor = ffi.new("MDB_dbi[1]"), ffi.new("MDB_cursor *[1]")
            check(lmdb.mdb_dbi_open(txn[0], name, 0, dbi), path .. ": database " .. name)
            check(lmdb.mdb_cursor_open(txn[0], dbi[0], cursor), path)
            generation.cursors[bytes] = cursor[0]
        end
    end)
    if not opened then
        close(generation)
        error(problem, 0)
    end
    return generation
end

local Ranges = {}
Ranges.__index = Ranges

-- `current` is a link to the newest generation. Looking where it leads costs about a microsecond.
function Ranges:refresh()
    local length = tonumber(C.readlink(self.store .. "/current", self.target, ffi.sizeof(self.target)))
    local name = length > 0 and ffi.string(self.target, length)
    if name and name == self.name then
        return
    end
    local opened, generation = pcall(open_generation, self.store .. "/" .. (name or "current"))
    if opened then
        if self.generation then
            close(self.generation)
        end
        self.name, self.generation = name, generation
    elseif not self.generation then
        error(generation, 0)
    end
    -- If the new generation cannot be opened, the old one answers and the next question tries again.
end

-- The stored JSON of the range that the address lies in, and the same as a table. Else nil.
function Ranges:get(text)
    local address, key, value = self.address, self.key, self.value
    local v6 = text:find(":", 1, true)
    if C.inet_pton(v6 and AF_INET6 or AF_INET, text, address) ~= 1 then
        return nil, "no IP address"
    end
    local bytes = v6 and 16 or 4
    self:refresh()
    local cursor = self.generation.cursors[bytes]
    key.mv_size, key.mv_data = bytes, address
    -- The first key that is not below the address.
    local code = lmdb.mdb_cursor_get(cursor, key, value, MDB_SET_RANGE)
    if code == MDB_NOTFOUND then
        -- All keys are below the address. That is no miss: it may lie in the last range.
        code = lmdb.mdb_cursor_get(cursor, key, value, MDB_LAST)
    elseif code == 0 and C.memcmp(key.mv_data, address, bytes) ~= 0 then
        -- The range begins behind the address, which can lie only in the one before.
        code = lmdb.mdb_cursor_get(cursor, key, value, MDB_PREV)
    end
    if code == MDB_NOTFOUND then
        return nil
    end
    check(code, self.store)
    local json = ffi.string(value.mv_data, value.mv_size)
    local last, members = decode(json)
    if C.memcmp(address, last, bytes) <= 0 then
        return json, members
    end
    return nil
end

-- Nothing is opened before the first question.
local function open(store)
    return setmetatable({
        store = store,
        target = ffi.new("char[256]"),
        address = ffi.new("uint8_t[16]"),
        key = ffi.new("MDB_val"),
        value = ffi.new("MDB_val"),
    }, Ranges)
end

if arg and arg[0] and arg[0]:find("lookup%.lua$") then
    io.stdout:setvbuf("line")
    local ranges = open(assert(arg[1], "usage: luajit lookup.lua STORE <ADDRESSES"))
    for address in io.lines() do
        io.write(address, "\t", ranges:get(address) or "", "\n")
    end
end

return { open = open }
