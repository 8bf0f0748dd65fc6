// A word of a fixed vocabulary (an enumeration with a table of its spellings), or one that only a newer stepscope
// knows: that one is kept as it was written, so that it survives a read and a write. Comparisons are with enumerators;
// a word from outside comes in through parsed() only. Value type, no threads; copying one is as cheap as an empty
// string.
//
// A vocabulary E has an enumerator kOther for words it does not know, and two functions found by lookup:
//   std::string_view spelling(E)         the word in files and interfaces, "" for the absence of one
//   E from_spelling(E, std::string_view) the first argument only picks the vocabulary; kOther = not known
#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace stepscope {

template <class E>
class Word {
 public:
  constexpr Word(E id = E{}) : id_(id) {}  // NOLINT: an enumerator is a word
  // Of a file, a setting, another node.
  static Word parsed(std::string_view text) {
    Word word(from_spelling(E{}, text));
    if (spelling(word.id_) != text) word.text_ = text;
    return word;
  }

  constexpr E id() const { return id_; }
  std::string_view text() const { return text_.empty() ? spelling(id_) : std::string_view(text_); }
  std::string str() const { return std::string(text()); }
  bool empty() const { return text().empty(); }

  friend bool operator==(const Word& word, E id) { return word.id_ == id; }
  friend bool operator==(const Word&, const Word&) = default;
  friend bool operator<(const Word& a, const Word& b) { return a.text() < b.text(); }
  friend std::ostream& operator<<(std::ostream& out, const Word& word) { return out << word.text(); }

 private:
  E id_;
  std::string text_;  // where it is not the spelling of id_
};

}  // namespace stepscope
