/* A conversation: each line of standard input is a message, each answer is streamed as it is generated.
 *     cc -std=c99 chat.c $(pkg-config --cflags --libs heddle) -o chat && ./chat MODEL [MAX_TOKENS] */
#include <heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that grows. */
struct text {
  char* bytes;
  size_t length;
};

static void append(struct text* text, const char* more, size_t length) {
  char* bytes = realloc(text->bytes, text->length + length + 1);
  if (!bytes) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  memcpy(bytes + text->length, more, length);
  bytes[text->length + length] = 0;
  text->bytes = bytes;
  text->length += length;
}

/* One more message at the end of a JSON list. */
static void append_message(struct text* list, const char* role, const char* content) {
  char escaped[8];
  list->length -= 1; /* the bracket at its end */
  if (list->length > 1) append(list, ",", 1);
  append(list, "{\"role\":\"", 9);
  append(list, role, strlen(role));
  append(list, "\",\"content\":\"", 13);
  for (; *content; ++content) {
    const unsigned char byte = (unsigned char)*content;
    if (byte == '"' || byte == '\\' || byte < 0x20)
      append(list, escaped, (size_t)sprintf(escaped, "\\u%04x", byte));
    else
      append(list, content, 1);
  }
  append(list, "\"}]", 3);
}

static int show(void* data, const heddle_piece* piece) {
  (void)data;
  fwrite(piece->text, 1, piece->length, stdout);
  return fflush(stdout) != 0; /* the reader is gone: end the text */
}

int main(int argc, char** argv) {
  struct text messages = {NULL, 0};
  heddle_model_options options;
  heddle_request request;
  heddle_model* model;
  heddle_error error;
  char line[4096];

  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [MAX_TOKENS]\n", argv[0]);
    return 2;
  }
  heddle_model_options_init(&options, sizeof options);
  options.device = getenv("HEDDLE_DEVICE") ? getenv("HEDDLE_DEVICE") : "auto";
  if (heddle_model_open(argv[1], &options, &model, &error) != HEDDLE_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  append(&messages, "[]", 2);
  while (fgets(line, sizeof line, stdin)) {
    heddle_generation* generation;
    line[strcspn(line, "\n")] = 0;
    append_message(&messages, "user", line);
    heddle_request_init(&request, sizeof request);
    request.messages = messages.bytes;
    request.temperature = 0;
    request.max_tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (heddle_generate(model, &request, show, NULL, &generation, &error) != HEDDLE_OK) {
      fprintf(stderr, "%s\n", error.message);
      break;
    }
    printf("\n");
    append_message(&messages, "assistant", heddle_generation_get_result(generation)->text);
    heddle_generation_free(generation);
  }
  free(messages.bytes);
  heddle_model_close(model);
  return 0;
}
