#!/bin/sh
# The picture of the README: the HTML page of a run as PNG. tools/picture.sh build/demo/straggler docs/pictures/report.png
# Needs chromium (Debian's).
set -eu
RUN=$(cd "${1:?usage: tools/picture.sh RUN PNG}" && pwd)
PNG=$(realpath "${2:?usage: tools/picture.sh RUN PNG}")
"${STEPSCOPE_BIN:-.venv/bin/stepscope}" report "$RUN" --html >/dev/null
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1 --window-size=1000,"${HEIGHT:-1500}" \
  --screenshot="$PNG" "file://$RUN/final_summary.html" 2>/dev/null
echo "$PNG"
