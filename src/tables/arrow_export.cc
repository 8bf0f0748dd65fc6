#include "tables/arrow_export.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

namespace stepscope::tables {
namespace {

// Who owns an exported struct. Children and dictionary are owned by theirs; moved ones have no release any more.
template <class Struct>
struct Owned {
  std::vector<std::unique_ptr<Struct>> children;
  std::vector<Struct*> child_pointers;
  std::unique_ptr<Struct> dictionary;

  Struct* add_child() {
    children.push_back(std::make_unique<Struct>());
    *children.back() = {};
    child_pointers.push_back(children.back().get());
    return children.back().get();
  }
  Struct* add_dictionary() {
    dictionary = std::make_unique<Struct>();
    *dictionary = {};
    return dictionary.get();
  }
  void link(Struct* out) {
    out->n_children = static_cast<int64_t>(children.size());
    out->children = children.empty() ? nullptr : child_pointers.data();
    out->dictionary = dictionary.get();
  }
  ~Owned() {
    for (const auto& child : children)
      if (child->release) child->release(child.get());
    if (dictionary && dictionary->release) dictionary->release(dictionary.get());
  }
  Owned() = default;
  Owned(const Owned&) = delete;
};

template <class Struct, class Owner>
void release(Struct* what) {
  if (!what->release) return;
  delete static_cast<Owner*>(what->private_data);
  what->private_data = nullptr;
  what->release = nullptr;
}

struct SchemaOwner : Owned<ArrowSchema> {
  std::string name, metadata;
};

void put_number(std::string& out, size_t number) {
  const auto word = static_cast<int32_t>(number);
  char bytes[sizeof word];
  std::memcpy(bytes, &word, sizeof word);
  out.append(bytes, sizeof word);
}

std::string encoded(const Notes& notes) {
  std::string out;
  if (notes.empty()) return out;
  put_number(out, notes.size());
  for (const auto& [key, value] : notes)
    for (const std::string* text : {&key, &value}) {
      put_number(out, text->size());
      out += *text;
    }
  return out;
}

const char* format_of(ColumnType type) {
  switch (type) {
    case ColumnType::kBool: return "b";
    case ColumnType::kInt32: return "i";
    case ColumnType::kInt64: return "l";
    case ColumnType::kUint64: return "L";
    case ColumnType::kReal: return "g";
    case ColumnType::kText: return "u";
    case ColumnType::kWord: return "i";  // of the indices
    case ColumnType::kRanks: return "+l";
  }
  return "n";
}

SchemaOwner* begin_schema(ArrowSchema* out, const char* format, std::string name, const Notes& notes, bool nullable) {
  auto* owner = new SchemaOwner;
  owner->name = std::move(name);
  owner->metadata = encoded(notes);
  *out = {};
  out->format = format;
  out->name = owner->name.c_str();
  out->metadata = owner->metadata.empty() ? nullptr : owner->metadata.data();
  out->flags = nullable ? ARROW_FLAG_NULLABLE : 0;
  out->private_data = owner;
  out->release = &release<ArrowSchema, SchemaOwner>;
  return owner;
}

void export_field(const Field& field, ArrowSchema* out) {
  Notes notes;
  if (!field.unit.empty()) notes.emplace_back("unit", field.unit);
  notes.insert(notes.end(), field.notes.begin(), field.notes.end());
  SchemaOwner* owner = begin_schema(out, format_of(field.type), field.name, notes, field.nullable);
  if (field.type == ColumnType::kRanks) begin_schema(owner->add_child(), "i", "item", {}, false);
  if (field.type == ColumnType::kWord) begin_schema(owner->add_dictionary(), "u", "", {}, false);
  owner->link(out);
}

struct ArrayOwner : Owned<ArrowArray> {
  std::shared_ptr<const Column> column;
  std::shared_ptr<const void> block;
  std::array<const void*, 3> buffers{};
};

constexpr int64_t kNothing = 0;  // what an empty buffer points to: some consumers take null amiss

ArrayOwner* begin_array(ArrowArray* out, size_t length, std::shared_ptr<const Column> column) {
  auto* owner = new ArrayOwner;
  *out = {};
  out->length = static_cast<int64_t>(length);
  out->private_data = owner;
  out->release = &release<ArrowArray, ArrayOwner>;
  out->buffers = owner->buffers.data();
  out->n_buffers = 2;
  if (column) {
    owner->buffers[0] = column->validity();
    out->null_count = static_cast<int64_t>(column->nulls());
  }
  owner->column = std::move(column);
  return owner;
}

void export_items(std::shared_ptr<const Column> column, ArrowArray* out) {
  const Column& ranks = *column;
  ArrayOwner* owner = begin_array(out, ranks.item_count(), std::move(column));
  owner->buffers[0] = nullptr;  // whole lists may be missing, ranks may not
  out->null_count = 0;
  owner->buffers[1] = ranks.item_count() ? ranks.items() : &kNothing;
}

void export_column(std::shared_ptr<const Column> shared, const Field* field, const std::shared_ptr<const void>& zero,
                   ArrowArray* out) {
  const Column& column = *shared;
  ArrayOwner* owner = begin_array(out, column.size(), shared);
  switch (column.type()) {
    case ColumnType::kText:
      out->n_buffers = 3;
      owner->buffers[1] = column.offsets();
      owner->buffers[2] = column.text_bytes() ? column.values() : &kNothing;
      break;
    case ColumnType::kRanks:
      owner->buffers[1] = column.offsets();
      export_items(shared, owner->add_child());
      break;
    default:
      owner->buffers[1] = column.values();
      if (!owner->buffers[1]) owner->block = zero, owner->buffers[1] = zero.get();
  }
  if (field && field->words) export_column(field->words, nullptr, zero, owner->add_dictionary());
  owner->link(out);
}

struct StreamOwner {
  std::unique_ptr<BatchSource> source;
  Notes notes;
  std::string error;
  bool failed = false;
};

StreamOwner& owner_of(ArrowArrayStream* stream) { return *static_cast<StreamOwner*>(stream->private_data); }

int failed(StreamOwner& owner, int code, std::string what) {
  owner.failed = true;
  owner.error = std::move(what);
  return code;
}

// What was begun when memory ran out.
template <class Struct>
int out_of_memory(StreamOwner& owner, Struct* out) {
  if (out->release) out->release(out);
  *out = {};
  return failed(owner, ENOMEM, "out of memory");
}

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  StreamOwner& owner = owner_of(stream);
  *out = {};
  try {
    export_schema(owner.source->fields(), owner.notes, out);
    return 0;
  } catch (const std::bad_alloc&) {
    return out_of_memory(owner, out);
  }
}

int get_next(ArrowArrayStream* stream, ArrowArray* out) {
  StreamOwner& owner = owner_of(stream);
  *out = {};
  if (owner.failed) return EIO;
  try {
    auto batch = owner.source->next();
    if (!batch) return failed(owner, EIO, std::move(batch.error().message));
    if (*batch) export_batch(owner.source->fields(), std::move(**batch), out);
    return 0;
  } catch (const std::bad_alloc&) {
    return out_of_memory(owner, out);
  }
}

const char* get_last_error(ArrowArrayStream* stream) {
  const StreamOwner& owner = owner_of(stream);
  return owner.error.empty() ? nullptr : owner.error.c_str();
}

}  // namespace

void export_schema(const std::vector<Field>& fields, const Notes& notes, ArrowSchema* out) {
  SchemaOwner* owner = begin_schema(out, "+s", "", notes, false);
  for (const Field& field : fields) export_field(field, owner->add_child());
  owner->link(out);
}

void export_batch(const std::vector<Field>& fields, Batch batch, ArrowArray* out) {
  const std::shared_ptr<const void> zero = zeros(batch.rows);
  ArrayOwner* owner = begin_array(out, batch.rows, nullptr);
  out->n_buffers = 1;  // rows are never missing
  for (size_t c = 0; c < fields.size(); ++c)
    export_column(std::make_shared<const Column>(std::move(batch.columns[c])), &fields[c], zero, owner->add_child());
  owner->link(out);
}

void export_stream(std::unique_ptr<BatchSource> source, Notes notes, ArrowArrayStream* out) {
  *out = {};
  out->get_schema = &get_schema;
  out->get_next = &get_next;
  out->get_last_error = &get_last_error;
  out->private_data = new StreamOwner{std::move(source), std::move(notes), "", false};
  out->release = &release<ArrowArrayStream, StreamOwner>;
}

}  // namespace stepscope::tables
