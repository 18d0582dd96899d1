// The time of a chat template: parsing it, and rendering conversations.
#include <benchmark/benchmark.h>

#include <string>

#include "text/template.h"

namespace {
using heddle::text::ChatTemplate;
using heddle::text::TemplateInput;

// In the manner of Llama 3: a system message, dates, tools, a loop with branches.
constexpr const char* source = R"({{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\nToday Date: " + date_string + "\n\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + "}" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
)";

TemplateInput conversation(int64_t messages) {
  TemplateInput input{.messages = "[", .bos = "<|begin_of_text|>", .eos = "<|eot_id|>"};
  for (int64_t i = 0; i < messages; ++i) {
    if (i) input.messages += ",";
    input.messages += i % 2 ? R"({"role": "assistant", "content": ")" : R"({"role": "user", "content": ")";
    for (int word = 0; word < 60; ++word) input.messages += "some words ";
    input.messages += "\"}";
  }
  input.messages += "]";
  return input;
}

void Parse(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ChatTemplate(source));
}
BENCHMARK(Parse)->Unit(benchmark::kMicrosecond);

void Render(benchmark::State& state) {
  const ChatTemplate chat(source);
  const TemplateInput input = conversation(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(chat.render(input));
}
BENCHMARK(Render)->Arg(2)->Arg(20)->Arg(200)->Unit(benchmark::kMicrosecond);

}  // namespace
