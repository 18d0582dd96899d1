// "post_processor" of tokenizer.json: the tokens put before and after a text.
#include "base/error.h"
#include "text/json/tokenizer_json_parts.h"

namespace heddle::text {
namespace {

struct Around {
  std::vector<TokenId> before, after;
};

void check_id(TokenId id, const std::string& place, const Pipeline& pipeline) {
  if (id >= pipeline.tokens.size()) throw Error("{}: id {} in a vocabulary of {}", place, id, pipeline.tokens.size());
}

// ["[SEP]", 102]
TokenId read_special_token(Fields& fields, std::string_view name, const Pipeline& pipeline) {
  const Json& pair = fields.list(name);
  if (pair.size() != 2 || !pair[0].is_string())
    throw Error("{}: expected a token and its id, found {}", fields.place(name), shortened(pair));
  const TokenId id = json_number(pair[1], fields.place(name));
  check_id(id, fields.place(name), pipeline);
  return id;
}

std::vector<TokenId> read_special(const Json& tokens, const std::string& name, const std::string& place,
                                  const Pipeline& pipeline) {
  const auto found = tokens.is_object() ? tokens.find(name) : tokens.end();
  if (found == tokens.end()) throw Error("{}: \"{}\" is missing", place, name);
  Fields fields(*found, fmt::format("{}[\"{}\"]", place, name));
  fields.ignore({"id", "tokens"});
  std::vector<TokenId> ids;
  for (const Json& id : fields.list("ids")) {
    ids.push_back(json_number(id, fields.place("ids")));
    check_id(ids.back(), fields.place("ids"), pipeline);
  }
  fields.finish();
  return ids;
}

// The template for one text; that for two ("pair") does not concern us.
Around read_template(Fields& fields, const Pipeline& pipeline) {
  Around around;
  fields.ignore("pair");
  const Json* special_tokens = fields.find("special_tokens");
  const Json& single = fields.list("single");
  bool after = false;
  for (size_t i = 0; i < single.size(); ++i) {
    Fields piece(single[i], fmt::format("{}[{}]", fields.place("single"), i));
    if (const Json* sequence = piece.find("Sequence")) {
      Fields inner(*sequence, piece.place("Sequence"));
      inner.ignore("type_id");
      const std::string id = inner.text("id");
      if (id != "A" || after) throw Error("{}: expected the text A once, found \"{}\"", inner.where(), id);
      inner.finish();
      after = true;
    } else {
      Fields inner(piece.at("SpecialToken"), piece.place("SpecialToken"));
      inner.ignore("type_id");
      const std::string name = inner.text("id");
      inner.finish();
      if (!special_tokens) throw Error("{}: \"special_tokens\" is missing", fields.where());
      const std::vector<TokenId> ids = read_special(*special_tokens, name, fields.place("special_tokens"), pipeline);
      auto& side = after ? around.after : around.before;
      side.insert(side.end(), ids.begin(), ids.end());
    }
    piece.finish();
  }
  if (!after) throw Error("{}: the text A is missing", fields.place("single"));
  return around;
}

Around read_processor(const JsonStep& step, const Pipeline& pipeline) {
  Fields fields(*step.json, step.where);
  fields.ignore("type");
  Around around;
  if (step.type == "TemplateProcessing") {
    around = read_template(fields, pipeline);
  } else if (step.type == "BertProcessing" || step.type == "RobertaProcessing") {
    around = {{read_special_token(fields, "cls", pipeline)}, {read_special_token(fields, "sep", pipeline)}};
    fields.ignore({"trim_offsets", "add_prefix_space"});
  } else if (step.type == "ByteLevel") {
    fields.ignore({"trim_offsets", "add_prefix_space", "use_regex"});
  } else {
    throw_unknown(step, "post-processor", "BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing");
  }
  fields.finish();
  return around;
}

}  // namespace

void read_post_processor(const Json* json, const std::string& where, Pipeline& pipeline) {
  for (const JsonStep& step : json_steps(json, "processors", where)) {
    const Around around = read_processor(step, pipeline);
    pipeline.prefix.insert(pipeline.prefix.begin(), around.before.begin(), around.before.end());
    pipeline.suffix.insert(pipeline.suffix.end(), around.after.begin(), around.after.end());
  }
}

}  // namespace heddle::text
