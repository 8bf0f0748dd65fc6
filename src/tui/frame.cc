#include "tui/frame.h"

#include "base/text_format.h"

namespace stepscope::tui {
namespace {

// Writes cells one after the other and changes ink only where it has to.
class Pen {
 public:
  Pen(std::string& out, ColorDepth depth) : out_(out), depth_(depth) {}

  void write(const Cell& cell) {
    if (!(cell.ink == ink_)) {
      const std::string parameters = sgr(cell.ink, depth_);
      out_ += parameters.empty() ? "\x1b[0m" : "\x1b[0;" + parameters + "m";
      ink_ = cell.ink;
    }
    out_ += cell.glyph;
  }
  void lift() {
    if (!(ink_ == Ink{})) out_ += "\x1b[0m";
    ink_ = {};
  }

 private:
  std::string& out_;
  ColorDepth depth_;
  Ink ink_;
};

bool blank(const Cell& cell) { return cell.glyph == " " && !cell.ink.reverse; }

// The columns of a row between which it differs.
struct Span {
  int begin = 0, end = 0;
};
Span changed(const Grid* before, const Grid& now, int y) {
  Span span{0, now.columns()};
  if (!before) {
    while (span.end > 0 && blank(now.at(span.end - 1, y))) --span.end;
    return span;
  }
  while (span.begin < span.end && before->at(span.begin, y) == now.at(span.begin, y)) ++span.begin;
  while (span.end > span.begin && before->at(span.end - 1, y) == now.at(span.end - 1, y)) --span.end;
  if (span.begin == span.end) return span;  // alike to its end, behind which is nothing to look at
  // Never from within a wide character, old or new.
  while (span.begin > 0 && (now.at(span.begin, y).glyph.empty() || before->at(span.begin, y).glyph.empty()))
    --span.begin;
  while (span.end < now.columns() && (now.at(span.end, y).glyph.empty() || before->at(span.end, y).glyph.empty()))
    ++span.end;
  return span;
}

}  // namespace

std::string frame_bytes(const Grid* before, const Grid& now, ColorDepth depth) {
  if (before && (before->columns() != now.columns() || before->rows() != now.rows())) before = nullptr;
  std::string out;
  Pen pen(out, depth);
  if (!before) out += "\x1b[0m\x1b[2J";
  for (int y = 0; y < now.rows(); ++y) {
    const Span span = changed(before, now, y);
    if (span.begin >= span.end) continue;
    out += formatted("\x1b[{};{}H", y + 1, span.begin + 1);
    for (int x = span.begin; x < span.end; ++x) pen.write(now.at(x, y));
  }
  pen.lift();
  return out;
}

std::string printed(const Grid& grid, ColorDepth depth) {
  std::string out;
  Pen pen(out, depth);
  for (int y = 0; y < grid.rows(); ++y) {
    const Span span = changed(nullptr, grid, y);
    for (int x = span.begin; x < span.end; ++x) pen.write(grid.at(x, y));
    pen.lift();
    out += '\n';
  }
  return out;
}

}  // namespace stepscope::tui
