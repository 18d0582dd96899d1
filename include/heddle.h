/* heddle as a library: open a model, generate text, embed, rank. C99, and C++.
 *
 *     heddle_error error;
 *     heddle_model *model;
 *     if (heddle_model_open("weft", NULL, &model, &error) != HEDDLE_OK) {
 *       fprintf(stderr, "%s\n", error.message);
 *       return 1;
 *     }
 *
 * Errors. A function that can fail returns a heddle_status and takes a heddle_error as its last argument, which may be
 * NULL. On failure the message says what was expected and what was found, and outputs are left as they were. Options
 * that heddle's command line has too are named as there ("--device"). No function prints, exits or throws.
 *
 * Threads. Every function may be called from any thread at any time, several at once on one model; requests of all
 * threads are computed together. The exceptions are named at heddle_model_close() and heddle_generation_next().
 *
 * Memory. What a function creates is released by the function named there. Arguments are copied: they may be released
 * when the call returns. Texts are UTF-8 and end with a 0 byte.
 *
 * Stability. Functions are versioned symbols (HEDDLE_1) and stay as they are. Structs grow at their end: those that the
 * library fills are allocated by the library; those that a program fills carry their size, by their _init function. */
#ifndef HEDDLE_H
#define HEDDLE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HEDDLE_API __attribute__((visibility("default")))
#else
#define HEDDLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum heddle_status {
  HEDDLE_OK = 0,
  HEDDLE_INVALID = 1,   /* an argument, an option or a request that cannot be done */
  HEDDLE_NOT_FOUND = 2, /* there is no such model on this machine */
  HEDDLE_FAILED = 3,    /* a file that cannot be read, too little memory, a device that failed */
  HEDDLE_BUG = 4        /* a mistake in heddle: please report it */
} heddle_status;

typedef struct heddle_error {
  char message[2048]; /* one line; one that is longer ends with "..." */
} heddle_error;

/* The version of the library: "0.1.0". */
HEDDLE_API const char* heddle_version(void);

/* Releases an array or a text that a function of the library has allocated. NULL is allowed. */
HEDDLE_API void heddle_free(void* memory);

/* --- Models ------------------------------------------------------------------------------------------------------- */

typedef struct heddle_model heddle_model;

#define HEDDLE_AUTO (-1)
#define HEDDLE_ALL_LAYERS INT32_MAX

typedef struct heddle_model_options {
  size_t size;           /* by heddle_model_options_init() */
  const char* device;    /* "auto": the first GPU that can run the model, else the CPU; "cpu"; "cuda:N" */
  const char* kv;        /* format of the KV cache: "f16", or "q8" with about half the bytes */
  const char* draft;     /* a small model of the same vocabulary that proposes tokens; NULL: none */
  uint64_t gpu_memory;   /* bytes of a GPU that may be used; 0: all that is free */
  uint32_t threads;      /* of the CPU; 0: one per core */
  uint32_t context;      /* tokens; 0: as trained, or less if memory is short */
  uint32_t cache_tokens; /* KV cache of all generations together, in tokens; 0: of one that fills the context */
  uint32_t draft_tokens; /* that the draft proposes at once */
  int32_t gpu_layers;    /* layers on the GPU, from the first on; HEDDLE_AUTO: all that fit */
  int32_t cpu_experts; /* layers whose experts run on the CPU; HEDDLE_AUTO: those that do not fit; HEDDLE_ALL_LAYERS */
  int32_t exact;       /* not 0: activations are not quantised */
  int32_t deterministic; /* not 0: a result does not depend on what else is computed; always so on the CPU */
  int32_t no_selftest;   /* not 0: a GPU is not tested on a part of the model before it is used */
  int32_t reserved;      /* 0 */
  /* Called by heddle_model_open(), before it returns, with each line that heddle has to say about opening: the device,
   * a context that had to be cut, warnings. NULL: they are dropped. */
  void (*log)(void* log_data, const char* line);
  void* log_data;
} heddle_model_options;

/* The defaults. `size`: sizeof *options, of the program that calls. */
HEDDLE_API void heddle_model_options_init(heddle_model_options* options, size_t size);

/* Opens a model: a GGUF file, a folder of safetensors, a name that `heddle models` lists, or "weft", the small model
 * inside the library. `options` NULL: the defaults. Release it by heddle_model_close(). */
HEDDLE_API heddle_status heddle_model_open(const char* name, const heddle_model_options* options, heddle_model** model,
                                           heddle_error* error);

/* Ends everything that the model computes and releases it. Its generations end with HEDDLE_FINISH_CANCELLED and stay
 * valid until heddle_generation_free(); calls that wait for embeddings or scores fail. No call on this model may begin
 * at the same time or after. NULL is allowed. */
HEDDLE_API void heddle_model_close(heddle_model* model);

typedef struct heddle_model_info {
  const char* name;
  const char* architecture;
  const char* type;    /* of the weights: "Q4_K_M" */
  const char* backend; /* what runs it: "cpu, 8 threads, ..." */
  uint64_t parameters;
  uint32_t context;    /* tokens that one text may have, its prompt included */
  uint32_t vocabulary; /* number of tokens */
  uint32_t embedding_width;
  int32_t can_generate;
  int32_t can_chat; /* it has a chat template */
  int32_t can_embed;
  int32_t can_rank;
} heddle_model_info;

/* Facts about a model, valid as long as the model. */
HEDDLE_API const heddle_model_info* heddle_model_get_info(const heddle_model* model);

/* --- Texts and tokens --------------------------------------------------------------------------------------------- */

enum {
  HEDDLE_ADD_SPECIAL = 1,  /* BOS and EOS, as the model wants them around a text */
  HEDDLE_PARSE_SPECIAL = 2 /* "<|im_start|>" in the text is that token, not its characters */
};

/* The tokens of a text. `flags`: of the above. Release `*tokens` by heddle_free(). */
HEDDLE_API heddle_status heddle_tokenize(const heddle_model* model, const char* text, int32_t flags, uint32_t** tokens,
                                         size_t* count, heddle_error* error);

/* The text of tokens, without special ones unless `special` is not 0. The bytes may hold a 0, and need not be UTF-8
 * where the tokens are a part of a text; one more 0 byte follows them. `length` may be NULL. Release `*text` by
 * heddle_free(). */
HEDDLE_API heddle_status heddle_detokenize(const heddle_model* model, const uint32_t* tokens, size_t count,
                                           int32_t special, char** text, size_t* length, heddle_error* error);

/* The prompt that the model's chat template makes of a conversation, up to where the answer begins. `messages`: JSON, a
 * list such as [{"role": "user", "content": "Hello"}]. `variables`: JSON, an object of variables for the template, such
 * as {"enable_thinking": false}, or NULL. Release `*text` by heddle_free(). To generate an answer, give the messages to
 * heddle_generation_start(), which keeps them from writing control tokens; this is for looking at the prompt. */
HEDDLE_API heddle_status heddle_render_chat(const heddle_model* model, const char* messages, const char* variables,
                                            char** text, heddle_error* error);

/* --- Generation --------------------------------------------------------------------------------------------------- */

typedef struct heddle_request {
  size_t size; /* by heddle_request_init() */
  /* What to continue: exactly one of prompt, messages and tokens. */
  const char* prompt;     /* a text */
  const char* messages;   /* a conversation to answer: JSON, see heddle_render_chat() */
  const uint32_t* tokens; /* token_count of them */
  size_t token_count;
  const char* variables;   /* with messages: see heddle_render_chat(); NULL: none */
  const char* const* stop; /* strings that end the text and are not part of it, stop_count of them */
  size_t stop_count;
  /* What the text must be; one of these at most. */
  const char* json_schema;   /* JSON that this JSON Schema accepts */
  const char* grammar;       /* a text of this grammar: GBNF, or Lark */
  const char* regex;         /* a text that this pattern matches as a whole */
  const uint64_t* seed;      /* the same one gives the same text; NULL: a random one, see heddle_result */
  uint32_t max_tokens;       /* to generate; 0: until the model ends or the context is full */
  int32_t parse_special;     /* with messages, not 0: their texts may write control tokens */
  float temperature;         /* 0: always the most likely token */
  int32_t top_k;             /* keep the k most likely tokens; 0: all */
  float top_p;               /* keep the most likely tokens whose probabilities add up to p; 1: all */
  float min_p;               /* keep tokens at least p times as likely as the most likely one; 0: all */
  float repetition_penalty;  /* on the last repetition_last_n tokens, of the prompt too; 1: none */
  int32_t repetition_last_n; /* -1: all */
  float presence_penalty;    /* on tokens generated before; 0: none */
  float frequency_penalty;   /* the same, per occurrence */
} heddle_request;

/* The defaults, those of `heddle run`. `size`: sizeof *request, of the program that calls. */
HEDDLE_API void heddle_request_init(heddle_request* request, size_t size);

/* What a token adds to the text. */
typedef struct heddle_piece {
  const char* text; /* whole characters, maybe none: what may still become a character or a stop string is held back */
  size_t length;    /* bytes of it; a 0 byte follows */
  const uint32_t* tokens; /* token_count of them: 1, or 0 for text that was held back until the end */
  size_t token_count;
} heddle_piece;

typedef enum heddle_finish {
  HEDDLE_FINISH_STOP = 1,     /* the model ended, a stop string came, or json_schema, grammar or regex allow no more */
  HEDDLE_FINISH_LENGTH = 2,   /* max_tokens */
  HEDDLE_FINISH_CONTEXT = 3,  /* the context is full */
  HEDDLE_FINISH_CANCELLED = 4 /* by heddle_generation_cancel(), a callback or heddle_model_close() */
} heddle_finish;

typedef struct heddle_result {
  const char* text; /* all of it; a 0 byte follows */
  size_t length;
  const uint32_t* tokens; /* all generated, those that ended the text included */
  size_t token_count;
  const char* stop; /* the stop string that ended it; NULL: none did */
  uint64_t seed;
  double prompt_seconds; /* until the first token */
  double generating_seconds;
  heddle_finish finish;
  uint32_t prompt_tokens;
  uint32_t cached_tokens; /* of these, found in the KV cache of earlier requests */
} heddle_result;

typedef struct heddle_generation heddle_generation;

/* Starts to generate, and returns while it goes on. Release `*generation` by heddle_generation_free(). */
HEDDLE_API heddle_status heddle_generation_start(heddle_model* model, const heddle_request* request,
                                                 heddle_generation** generation, heddle_error* error);

/* Waits for the next piece; `*piece` is NULL at the end. A piece is valid until the next call with this generation,
 * which one thread at a time may make. */
HEDDLE_API heddle_status heddle_generation_next(heddle_generation* generation, const heddle_piece** piece,
                                                heddle_error* error);

/* Ends it early: pieces that were not taken are dropped, and heddle_generation_next() gives the end. From any thread;
 * returns at once. */
HEDDLE_API void heddle_generation_cancel(heddle_generation* generation);

/* What was generated, once heddle_generation_next() has come to the end; NULL before that, and if it failed. Valid
 * until heddle_generation_free(). */
HEDDLE_API const heddle_result* heddle_generation_get_result(const heddle_generation* generation);

/* Releases a generation, also one that has not ended: it is cancelled. NULL is allowed. */
HEDDLE_API void heddle_generation_free(heddle_generation* generation);

/* Called on the thread that called heddle_generate(), with each piece. Not 0 ends the text. */
typedef int (*heddle_on_piece)(void* data, const heddle_piece* piece);

/* The above in one call: starts, calls `on_piece` (which may be NULL) until the end, and leaves the generation with its
 * result. `generation` may be NULL; otherwise release `*generation` by heddle_generation_free(). */
HEDDLE_API heddle_status heddle_generate(heddle_model* model, const heddle_request* request, heddle_on_piece on_piece,
                                         void* data, heddle_generation** generation, heddle_error* error);

/* --- Embeddings and ranks ----------------------------------------------------------------------------------------- */

/* The embeddings of texts, each of length 1: `count` rows of embedding_width values. Release `*embeddings` by
 * heddle_free(). */
HEDDLE_API heddle_status heddle_embed(heddle_model* model, const char* const* texts, size_t count, float** embeddings,
                                      heddle_error* error);

/* How well documents match a query, from 0 to 1: `count` scores, in the order of the documents. `truncate` not 0:
 * documents that are too long are cut; otherwise they are refused. Release `*scores` by heddle_free(). */
HEDDLE_API heddle_status heddle_rank(heddle_model* model, const char* query, const char* const* documents, size_t count,
                                     int32_t truncate, float** scores, heddle_error* error);

#ifdef __cplusplus
}
#endif

#endif
