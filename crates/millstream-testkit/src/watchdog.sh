# Argument: a directory with a server's data directory in it. Ends when its input does.
cd / && cat >/dev/null
end() {
    pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) || return
    case "$(cat "/proc/$pid/comm" 2>/dev/null || ps -o comm= -p "$pid")" in
        *postgres) kill -QUIT "$pid" ;;
    esac
}
# A server that was just starting, or processes that are still ending, may write one more file.
for try in 1 2 3 4 5 6 7 8 9 10; do
    end "$1"
    rm -rf "$1" && break
    sleep 0.3
done
