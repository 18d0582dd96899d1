// Grammars are written out as loops over characters: a name is short, and what it may have is a security question.
#include "store/names.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/gguf.h"

namespace heddle::store {
namespace {

constexpr size_t max_name = 128, max_tag = 200, max_path = 1024;  // characters

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool is_tag(std::string_view text) {
  const auto good = [](char c) { return c > ' ' && c <= '~' && c != ':' && c != '\\'; };
  return !text.empty() && text.size() <= max_tag && std::ranges::all_of(text, good);
}

std::vector<std::string_view> divided(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool drop_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

[[noreturn]] void refuse_name(std::string_view text, std::string_view why) {
  throw Error(
      "{}: expected org/repo or org/repo:TYPE of the Hugging Face Hub, or name:tag or host/namespace/name:tag of an "
      "Ollama registry, found {}",
      in_quotes(text), why);
}

// "00002" of "m-00002-of-00003.gguf", whose form is known.
uint32_t number_at(std::string_view text, size_t at) {
  uint32_t number = 0;
  std::from_chars(text.data() + at, text.data() + at + 5, number);
  return number;
}

bool is_type(std::string_view word) {
  for (const std::string_view whole : {"F16", "BF16", "F32", "FP16", "FP32", "MXFP4", "NVFP4"})
    if (word == whole) return true;
  if (word.starts_with("MXFP4_")) return true;
  for (const std::string_view begin : {"Q", "IQ", "TQ"})
    if (word.size() > begin.size() && word.starts_with(begin) && word[begin.size()] >= '0' && word[begin.size()] <= '9')
      return std::ranges::all_of(word, [](char c) { return is_letter_or_digit(c) || c == '_'; });
  return false;
}

bool belongs_to_model(std::string_view file) {  // and is none itself
  const std::string name = lower_case(file);
  return name.find("mmproj") != name.npos || name.find("imatrix") != name.npos;
}

std::string_view file_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }  // npos + 1 is 0

void set_labels(std::vector<GgufModel>& models) {
  std::map<std::string, size_t> tags, names;
  for (const GgufModel& model : models) {
    ++tags[model.tag];
    ++names[std::string(file_part(model.stem))];
  }
  for (GgufModel& model : models) {
    const std::string name(file_part(model.stem));
    if (!model.tag.empty() && tags[model.tag] == 1)
      model.label = model.tag;
    else
      model.label = names[name] == 1 ? name : model.stem;
  }
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return out;
}

bool is_plain_name(std::string_view text) {
  if (text.empty() || text.size() > max_name || !(is_letter_or_digit(text[0]) || text[0] == '_')) return false;
  return std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > max_path || !is_utf8(path)) return false;
  for (const unsigned char c : path)
    if (c < ' ' || c == 127 || c == '\\') return false;
  return std::ranges::all_of(divided(path, '/'), [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." && part.size() <= 255;
  });
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_host(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  if (!is_plain_name(host) || host.find('_') != host.npos) return false;
  if (colon == text.npos) return host.find('.') != host.npos || host == "localhost";
  const std::string_view port = text.substr(colon + 1);
  return !port.empty() && port.size() <= 5 && std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

std::string RemoteName::text() const {
  const std::string ending = tag.empty() ? "" : ":" + tag;
  if (source == Source::hub) return fmt::format("{}/{}{}", owner, name, ending);
  if (host != ollama_host) return fmt::format("{}/{}/{}{}", host, owner, name, ending);
  // "owner/name" would be a repository of the hub
  return owner == ollama_library ? name + ending : fmt::format("{}/{}/{}{}", host, owner, name, ending);
}

RemoteName read_remote_name(std::string_view whole) {
  std::string_view text = whole;
  const bool is_url = drop_prefix(text, "https://");
  const bool is_hub = drop_prefix(text, "huggingface.co/") || drop_prefix(text, "hf.co/");
  if (is_url && !is_hub) refuse_name(whole, "another address");
  RemoteName result;
  // the colon of a tag comes after the last slash of the name; a tag of the hub may have slashes of its own
  std::vector<std::string_view> parts = divided(text, '/');
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t colon = parts[i].find(':');
    if (colon == parts[i].npos || (i == 0 && parts.size() >= 3 && is_host(parts[0]))) continue;
    result.tag = text.substr(size_t(parts[i].data() - text.data()) + colon + 1);
    parts[i] = parts[i].substr(0, colon);
    parts.resize(i + 1);
    if (!is_tag(result.tag)) refuse_name(whole, "a tag that is none");
    break;
  }
  if (parts.size() > 3 || (is_hub && parts.size() != 2))
    refuse_name(whole, fmt::format("a name of {} parts", parts.size()));
  if (parts.size() == 3) {
    if (!is_host(parts[0])) refuse_name(whole, fmt::format("the host {}", in_quotes(parts[0])));
    result.host = parts[0] == "ollama.com" ? ollama_host : parts[0];
    parts.erase(parts.begin());
  }
  for (const std::string_view part : parts)
    if (!is_plain_name(part)) refuse_name(whole, fmt::format("the part {}", in_quotes(part)));
  result.name = parts.back();
  result.source = parts.size() == 1 || !result.host.empty() ? RemoteName::Source::registry : RemoteName::Source::hub;
  result.owner = parts.size() == 2 ? parts[0] : ollama_library;
  if (result.source == RemoteName::Source::hub) return result;
  if (result.host.empty()) result.host = ollama_host;
  if (result.tag.empty()) result.tag = "latest";
  if (!is_plain_name(result.tag)) refuse_name(whole, fmt::format("the tag {}", in_quotes(result.tag)));
  return result;
}

std::optional<RemoteName> find_remote_name(std::string_view text) {
  const std::string lower = lower_case(text);
  if (lower.ends_with(".gguf") || lower.ends_with(".safetensors") || lower.ends_with(".json")) return std::nullopt;
  try {
    return read_remote_name(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string type_in_name(std::string_view stem) {
  const size_t at = stem.find_last_of("-.");
  const std::string word = upper_case(at == stem.npos ? stem : stem.substr(at + 1));
  if (!is_type(word)) return {};
  const std::string before = at == stem.npos ? "" : upper_case(stem.substr(0, at));
  return before.ends_with("-UD") ? "UD-" + word : word;
}

std::vector<GgufModel> gguf_models_among(const std::vector<std::string>& paths) {
  struct SplitFile {
    uint32_t number, count;
    size_t file;
  };
  std::vector<GgufModel> models;
  std::map<std::string, size_t> places;
  std::vector<std::vector<SplitFile>> parts;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string_view path = paths[i], name = file_part(path);
    if (name.starts_with('.') || !lower_case(name).ends_with(".gguf") || belongs_to_model(name)) continue;
    const std::string_view bare = formats::gguf_model_name(name);
    if (bare.empty()) continue;
    const bool split = bare.size() != name.size();
    // -00002-of-00003.gguf
    SplitFile part{1, 1, i};
    if (split) part = {number_at(name, name.size() - 19), number_at(name, name.size() - 10), i};
    std::string stem(path.substr(0, path.size() - name.size()));
    stem += split ? bare : name.substr(0, name.size() - 5);
    const auto [place, is_new] = places.emplace(fmt::format("{}/{}", stem, part.count), models.size());
    if (is_new) {
      models.push_back({.stem = stem, .tag = type_in_name(file_part(stem)), .label = {}, .files = {}});
      parts.emplace_back();
    }
    parts[place->second].push_back(part);
  }
  for (size_t i = 0; i < models.size(); ++i) {
    std::ranges::sort(parts[i], {}, &SplitFile::number);
    for (uint32_t number = 1; const SplitFile& part : parts[i]) {
      models[i].files.push_back(part.file);
      models[i].complete &= part.number == number++ && part.count == parts[i].size();
    }
  }
  set_labels(models);
  return models;
}

bool is_asked_for(const GgufModel& model, std::string_view tag) {
  const std::string wanted = lower_case(tag), type = lower_case(model.tag), stem = lower_case(model.stem);
  const std::string name(file_part(stem));
  return wanted == lower_case(model.label) || (!type.empty() && (wanted == type || "ud-" + wanted == type)) ||
         wanted == name || wanted == name + ".gguf" || wanted == stem || wanted == stem + ".gguf";
}

}  // namespace heddle::store
