# Runs the PostgreSQL of one test process, and ends it with that process.
# $1 is the cluster's directory; the rest is the command that runs the server.
# Each line on stdin restarts the server, as a crash would; the end of stdin is the end.
directory=$1
shift
# A key press that ends the tests reaches this shell too, which has to clean up after them.
trap '' INT TERM
stop() {
    kill -QUIT "$server" && wait "$server"
}
"$@" &
server=$!
while read -r _; do
    stop
    "$@" &
    server=$!
done
stop
rm -rf "$directory"
