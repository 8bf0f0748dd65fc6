// make_thresholds spec/rules.toml OUT: writes the rules' thresholds as one X-macro (src/diagnose/thresholds.h uses it).
// Runs at build time only. Fails with one line that names the file and what is wrong in it.
#include <toml++/toml.h>

#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

struct Unit {
  double least = 0, largest = 0;
  std::string words;
};

double number(const toml::node* node, const std::string& where) {
  const auto value = node ? node->value<double>() : std::nullopt;
  if (!value) throw std::runtime_error(where + ": a number is expected");
  return *value;
}

std::string words(const toml::node* node, const std::string& where) {
  const auto value = node ? node->value<std::string>() : std::nullopt;
  if (!value || value->empty() || value->find('\n') != std::string::npos) throw std::runtime_error(where + ": a text of one line is expected");
  return *value;
}

const toml::array& list(const toml::node& node, size_t least, size_t most, const std::string& where) {
  const toml::array* array = node.as_array();
  if (!array || array->size() < least || array->size() > most)
    throw std::runtime_error(where + ": wrong number of parts");
  return *array;
}

std::string literal(double value) {
  std::ostringstream out;
  out.precision(17);
  out << value;
  return out.str();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// One row of a table as X(name, default, least, largest, unit in words, reason).
std::string row(const std::string& name, const toml::node& node, const std::map<std::string, Unit>& units) {
  const toml::array& parts = list(node, 3, 4, name);
  const auto unit = units.find(words(parts.get(1), name));
  if (unit == units.end()) throw std::runtime_error(name + ": its unit is not in [units]");
  const double value = number(parts.get(0), name);
  const double least = parts.size() > 3 ? number(parts.get(3), name) : unit->second.least;
  if (value < least || value > unit->second.largest) throw std::runtime_error(name + ": the default is out of range");
  return "  X(" + name + ", " + literal(value) + ", " + literal(least) + ", " + literal(unit->second.largest) + ", " +
         quoted(unit->second.words) + ", " + quoted(words(parts.get(2), name)) + ")";
}

std::string header(const toml::table& spec) {
  std::map<std::string, Unit> units;
  std::set<std::string> seen;
  std::string out = "// Written by cmake/make_thresholds.cc from spec/rules.toml.\n#pragma once\n";
  if (!spec["units"].is_table()) throw std::runtime_error("no table [units]");
  for (const auto& [key, node] : *spec["units"].as_table()) {
    const std::string name(key.str());
    const toml::array& parts = list(node, 3, 3, name);
    units[name] = {number(parts.get(0), name), number(parts.get(1), name), words(parts.get(2), name)};
  }
  const std::pair<const char*, const char*> tables[] = {{"rules", "STEPSCOPE_THRESHOLDS"},
                                                        {"host", "STEPSCOPE_HOST_THRESHOLDS"}};
  for (const auto& [table, macro] : tables) {
    if (!spec[table].is_table()) throw std::runtime_error(std::string("no table [") + table + "]");
    out += std::string("\n// name, default, least, largest, unit in words, reason\n#define ") + macro + "(X)";
    for (const auto& [key, node] : *spec[table].as_table()) {
      const std::string name(key.str());
      if (!seen.insert(name).second) throw std::runtime_error(name + " stands in both tables");
      out += " \\\n" + row(name, node, units);
    }
    out += "\n";
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const std::string text = header(toml::parse_file(argv[1]));
    std::ofstream out(argv[2]);
    out << text;
    out.close();
    if (!out) throw std::runtime_error(std::string("cannot write ") + argv[2]);
    return 0;
  } catch (const toml::parse_error& error) {
    std::cerr << argv[1] << ":" << error.source().begin.line << ": " << error.description() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << argv[1] << ": " << error.what() << "\n";
    return 1;
  }
}
