/* How alike texts are: the cosine between the embedding of the first and those of the others.
 *     cc -std=c99 similarity.c $(pkg-config --cflags --libs heddle) -o similarity && ./similarity MODEL TEXT OTHER...
 */
#include <heddle.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  heddle_model_options options;
  heddle_model* model;
  heddle_error error;
  float* embeddings;
  size_t width, count, i, j;
  int status = 1;

  if (argc < 4) {
    fprintf(stderr, "usage: %s MODEL TEXT OTHER...\n", argv[0]);
    return 2;
  }
  heddle_model_options_init(&options, sizeof options);
  options.device = getenv("HEDDLE_DEVICE") ? getenv("HEDDLE_DEVICE") : "auto";
  if (heddle_model_open(argv[1], &options, &model, &error) != HEDDLE_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  width = heddle_model_get_info(model)->embedding_width;
  count = (size_t)argc - 2;
  if (heddle_embed(model, (const char* const*)argv + 2, count, &embeddings, &error) == HEDDLE_OK) {
    for (i = 1; i < count; ++i) {
      double cosine = 0; /* embeddings have a length of 1 */
      for (j = 0; j < width; ++j) cosine += (double)embeddings[j] * embeddings[i * width + j];
      printf("%.6f  %s\n", cosine, argv[i + 2]);
    }
    heddle_free(embeddings);
    status = 0;
  } else {
    fprintf(stderr, "%s\n", error.message);
  }
  heddle_model_close(model);
  return status;
}
