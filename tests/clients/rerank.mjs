// Cohere's client and the AI SDK's against a running server: node rerank.mjs http://127.0.0.1:8080 KEY
// The server must be one of `heddle serve tiny-reranker --api-key KEY` with the model of tiny_reranker.mjs.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createCohere } from '@ai-sdk/cohere';
import { rerank } from 'ai';
import { CohereClient, CohereClientV2, CohereError } from 'cohere-ai';

const [url, token] = process.argv.slice(2);
const model = 'tiny-reranker', query = 'what is a heddle', letters = 'abcdefghijklmnopqrstuvwxyz';
const documents = Array.from({ length: 100 }, (_, i) =>
  Array.from({ length: 1 + (i % 9) }, (_, j) => letters.slice((i * 7 + j * 5) % 20).slice(0, 1 + ((i + j) % 6))).join(' '));
const options = { token, environment: url, maxRetries: 0 };
const v1 = new CohereClient(options), v2 = new CohereClientV2(options);

// Each document in a request of its own, without a client: the best first, equal ones by the lower index.
const scores = await Promise.all(documents.map(async (document) => {
  const response = await fetch(`${url}/v1/rerank`, { method: 'POST', body: JSON.stringify({ query, documents: [document] }),
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` } });
  return (await response.json()).results[0].relevance_score;
}));
const order = documents.map((_, i) => i).sort((a, b) => scores[b] - scores[a] || a - b);
assert(new Set(scores).size > 50, 'documents have scores of their own');
const expectRanked = (results, count, indexOf, scoreOf) => {
  assert.deepEqual(results.map(indexOf), order.slice(0, count));
  for (const result of results) assert.equal(scoreOf(result), scores[indexOf(result)]);
};
const expectCohere = (results, count) => expectRanked(results, count, (r) => r.index, (r) => r.relevanceScore);

for (const [name, client] of [['Client', v1], ['ClientV2', v2]]) {
  test(`Cohere${name}: all, and the best`, async () => {
    const all = await client.rerank({ model, query, documents });
    assert(all.id);
    expectCohere(all.results, documents.length);
    expectCohere((await client.rerank({ model, query, documents, topN: 7 })).results, 7);
  });

  test(`Cohere${name}: errors`, async () => {
    const refused = (status, part) => (error) => {
      assert(error instanceof CohereError);
      assert.equal(error.statusCode, status);
      assert.match(error.message, part);
      return true;
    };
    await assert.rejects(client.rerank({ model, query: '', documents }), refused(400, /query/));
    await assert.rejects(client.rerank({ model, query, documents: ['a '.repeat(200)] }), refused(400, /128/));
    await assert.rejects(client.rerank({ model: 'another', query, documents }), refused(404, /another/));
    const stranger = new client.constructor({ ...options, token: 'wrong' });
    await assert.rejects(stranger.rerank({ model, query, documents }), refused(401, /key/));
  });
}

test('CohereClient: documents as objects, and returned', async () => {
  const { results } = await v1.rerank({ model, query, documents: documents.map((text) => ({ text })), returnDocuments: true });
  expectCohere(results, documents.length);
  for (const { index, document } of results) assert.equal(document.text, documents[index]);
});

test('CohereClientV2: documents are cut', async () => {
  const one = (documents, more) => v2.rerank({ model, query, documents: [documents], ...more });
  const long = await one('a b c '.repeat(100), { maxTokensPerDoc: 6 });
  assert.equal(long.results[0].relevanceScore, (await one('a b c a b c')).results[0].relevanceScore);
});

test('AI SDK: rerank', async () => {
  const cohere = createCohere({ baseURL: `${url}/v2`, apiKey: token });
  const { ranking, rerankedDocuments } = await rerank({ model: cohere.reranking(model), query, documents, topN: 12 });
  expectRanked(ranking, 12, (r) => r.originalIndex, (r) => r.score);
  assert.deepEqual(rerankedDocuments, order.slice(0, 12).map((i) => documents[i]));
});
