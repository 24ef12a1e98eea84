#!/bin/bash
# The last step of the first start; see start.sh.
set -eu
rm "${PGDATA%/*}/initializing"
sync "${PGDATA%/*}"
