// Routes about the models: which there are, which are loaded, and what loads one or puts it away.
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/api/json.h"
#include "server/http/query.h"
#include "server/service/service_state.h"
#include "server/status/status.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered listed_json(const ListedModel& model) {
  const ModelCard& card = model.card;
  Ordered status{{"value", name(model.status)}};
  if (!model.error.empty()) status["error"] = replace_invalid_utf8(model.error);
  return {{"id", replace_invalid_utf8(card.name)},
          {"object", "model"},
          {"created", model.created ? model.created : card.facts.modified},
          {"owned_by", "heddle"},
          {"max_model_len", card.context},
          {"status", status},
          {"meta",
           {{"context", card.context},
            {"vocabulary", card.vocabulary},
            {"width", card.width},
            {"chat", !card.chat_template.empty()}}}};
}

// The body of /models/load and /models/unload.
std::string read_model_name(std::string_view body, IgnoredFields* ignored) {
  const Json json = parse_body(body);
  Fields fields(json, ignored);
  std::string name = text_at(fields.at("model"), "model");
  fields.finish();
  return name;
}

std::string known_model(const Call& call) {
  const std::string asked = call.read(read_model_name);
  const auto found = asked.empty() ? std::nullopt : call.service.models().find(asked);
  if (!found) throw model_not_found(asked, call.service.models().names());
  call.exchange->log().model = *found;
  return *found;
}

}  // namespace

std::string model_json(const ListedModel& model) { return listed_json(model).dump(); }

void list_models(const Call& call) {
  Ordered all = Ordered::array();
  for (const ListedModel& model : call.service.models().list()) all.push_back(listed_json(model));
  call.exchange->send_json(Ordered{{"object", "list"}, {"data", all}}.dump());
}

ListedModel model_in_path(const Call& call) {
  const std::string name = unescaped(std::string_view(call.exchange->request().path).substr(models_path.size()));
  if (name.empty() || !call.service.models().find(name)) throw model_not_found(name, call.service.models().names());
  return call.service.models().describe(name);
}

void show_model(const Call& call) { call.exchange->send_json(model_json(model_in_path(call))); }

void load_model(const Call& call) {
  call.service.models().load(known_model(call));
  call.exchange->send_json(R"({"success":true})");
}

void unload_model(const Call& call) {
  const std::string name = known_model(call);
  if (!call.service.models().unloads_models())
    throw ApiError(400, "not_supported", "model", "{} is the only model of this server, and stays loaded",
                   in_quotes(name, 200));
  call.service.models().unload(name);
  call.exchange->send_json(R"({"success":true})");
}

}  // namespace heddle::server
