# Arguments: pg_ctl, the server's directory. Ends when its input does.
cat >/dev/null
"$1" -s -D "$2/data" stop -m immediate -W
# Processes that are still ending may write one more file.
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$2" && break
    sleep 0.3
done
