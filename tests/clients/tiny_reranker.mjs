// Writes the folder of a tiny BERT that ranks documents, with random weights: node tiny_reranker.mjs FOLDER
// Its tokenizer knows words of the letters a to z.
import { mkdirSync, writeFileSync } from 'node:fs';

const folder = process.argv[2];
const width = 32, inner = 48, context = 128;
const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]'];
const letters = [...'abcdefghijklmnopqrstuvwxyz'];
const vocab = Object.fromEntries([...special, ...letters, ...letters.map((l) => `##${l}`)].map((token, id) => [token, id]));

const config = {
  architectures: ['BertForSequenceClassification'], model_type: 'bert', hidden_size: width, intermediate_size: inner,
  num_hidden_layers: 2, num_attention_heads: 4, hidden_act: 'gelu', layer_norm_eps: 1e-12,
  max_position_embeddings: context, type_vocab_size: 2, vocab_size: Object.keys(vocab).length, pad_token_id: 0,
  id2label: { 0: 'LABEL_0' }, label2id: { LABEL_0: 0 },
};
const tokenizer = {
  version: '1.0',
  added_tokens: special.map((content, id) =>
    ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true })),
  normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor: { type: 'BertProcessing', sep: ['[SEP]', 3], cls: ['[CLS]', 2] },
  decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
  model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab },
};

const shapes = { 'classifier.weight': [1, width], 'classifier.bias': [1] };
const linear = (name, rows, cols) => Object.assign(shapes, { [`${name}.weight`]: [rows, cols], [`${name}.bias`]: [rows] });
const norm = (name) => Object.assign(shapes, { [`${name}.weight`]: [width], [`${name}.bias`]: [width] });
for (const [name, rows] of [['word', config.vocab_size], ['position', context], ['token_type', 2]])
  shapes[`bert.embeddings.${name}_embeddings.weight`] = [rows, width];
norm('bert.embeddings.LayerNorm');
for (let i = 0; i < config.num_hidden_layers; ++i) {
  const layer = `bert.encoder.layer.${i}`;
  for (const part of ['query', 'key', 'value']) linear(`${layer}.attention.self.${part}`, width, width);
  linear(`${layer}.attention.output.dense`, width, width);
  norm(`${layer}.attention.output.LayerNorm`);
  linear(`${layer}.intermediate.dense`, inner, width);
  linear(`${layer}.output.dense`, width, inner);
  norm(`${layer}.output.LayerNorm`);
}
linear('bert.pooler.dense', width, width);

let state = 1;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647 - 0.5;
const header = {}, parts = [];
let at = 0;
for (const [name, shape] of Object.entries(shapes)) {
  const values = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, random);
  if (name.endsWith('LayerNorm.weight')) values.forEach((value, i) => (values[i] = 1 + value));
  header[name] = { dtype: 'F32', shape, data_offsets: [at, (at += values.byteLength)] };
  parts.push(Buffer.from(values.buffer));
}
const text = Buffer.from(JSON.stringify(header)), size = Buffer.alloc(8);
size.writeBigUInt64LE(BigInt(text.length));
mkdirSync(folder, { recursive: true });
writeFileSync(`${folder}/config.json`, JSON.stringify(config));
writeFileSync(`${folder}/tokenizer.json`, JSON.stringify(tokenizer));
writeFileSync(`${folder}/model.safetensors`, Buffer.concat([size, text, ...parts]));
