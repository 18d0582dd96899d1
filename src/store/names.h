// The names of models: those that people write, those of files and of the remote places that models come from. They
// are read from strangers' lists, so none becomes a path before it is checked here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::store {

// A model that can be pulled: org/repo[:TAG] of the Hugging Face Hub, name[:tag] or host/namespace/name[:tag] of an
// Ollama registry.
struct RemoteName {
  enum class Source { hub, registry };
  Source source = Source::hub;
  std::string host;         // of a registry
  std::string owner, name;  // "unsloth" and "Qwen3-8B-GGUF"; "library" and "qwen3"
  std::string tag;          // "Q4_K_M", "0.6b"; of the hub, empty: the default type

  std::string text() const;  // "unsloth/Qwen3-8B-GGUF:Q4_K_M", "qwen3:0.6b"
  bool operator==(const RemoteName&) const = default;
};

inline constexpr std::string_view ollama_host = "registry.ollama.ai", ollama_library = "library";

RemoteName read_remote_name(std::string_view text);  // an Error says what was expected
// The host of a name of three parts. A host has a dot or a port, or is localhost, so that it is no organisation.
bool is_host(std::string_view text);
// Unset for what can only be a path, such as ./m, /m and m.gguf, and for what is no name at all.
std::optional<RemoteName> find_remote_name(std::string_view text);

// Letters, digits and ._- that begin with a letter, a digit or _: one folder of a path, and nothing but that.
bool is_plain_name(std::string_view text);
// A path of a list of files below its folder: relative, without "..", control characters and backslashes.
bool is_safe_path(std::string_view path);
// 64 hexadecimal digits in lower case.
bool is_sha256(std::string_view text);

std::string lower_case(std::string_view text);
std::string upper_case(std::string_view text);

// A GGUF model among files: one file, or the files of a split model in their order.
struct GgufModel {
  std::string stem;           // the path without "-00001-of-00002" and ".gguf"
  std::string tag;            // the type that the name says: "Q4_K_M", "UD-Q4_K_XL"; empty: it says none
  std::string label;          // the tag if no other has it, else the file's name or path without the ending
  std::vector<size_t> files;  // their places in the list
  bool complete = true;       // otherwise some file of a split model is not in the list
};
// Of paths, in the order of the list. Files that only belong to a model (mmproj, imatrix) are none.
std::vector<GgufModel> gguf_models_among(const std::vector<std::string>& paths);

// "Q4_K_M" for "Qwen3-8B-Q4_K_M": the last word, in capitals, if it is that of a type; otherwise empty.
std::string type_in_name(std::string_view stem);
// Whether a tag that was asked for means this model: its label, its type with or without "UD-", the name of its file.
bool is_asked_for(const GgufModel& model, std::string_view tag);

}  // namespace heddle::store
