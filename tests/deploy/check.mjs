// The files of deploy/: node check.mjs DEPLOY PROGRAM
// Kubernetes' own kinds, and those of the Gateway API, the Prometheus Operator and KEDA, are held against their published schemas
// as npm packages have them: by the validators for values, and by the TypeScript compiler for fields that do not exist. Kinds
// that no package has, and compose files, are held against the schemas beside this, written from their documentation. Beyond
// schemas: options and metrics that the files name are those of the program, and names within a file fit together.
import Ajv from 'ajv';
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import ts from 'typescript';
import yaml from 'yaml';

const [deploy, program] = process.argv.slice(2);
const require = createRequire(path.resolve('check.mjs'));
const text = (name) => fs.readFileSync(path.join(deploy, name), 'utf8');

const packages = {
  'apps/v1 Deployment': 'kubernetes-models/apps/v1/Deployment',
  'v1 Service': 'kubernetes-models/v1/Service',
  'v1 PodTemplateSpec': 'kubernetes-models/v1/PodTemplateSpec',
  'gateway.networking.k8s.io/v1 HTTPRoute': '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1/HTTPRoute',
  'monitoring.coreos.com/v1 PodMonitor': '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor',
  'keda.sh/v1alpha1 ScaledObject': '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject',
};
const written = ['InferencePool', 'LeaderWorkerSet'];

const manifests = fs.readdirSync(path.join(deploy, 'kubernetes')).flatMap((file) =>
  yaml.parseAllDocuments(text(`kubernetes/${file}`)).map((document) => {
    assert.deepEqual(document.errors, [], file);
    return [file, document.toJS()];
  }));
const kind = (manifest) => `${manifest.apiVersion} ${manifest.kind}`;
const podTemplates = (manifest) => manifest.kind === 'Deployment' ? [manifest.spec.template]
  : manifest.kind === 'LeaderWorkerSet' ? [manifest.spec.leaderWorkerTemplate.leaderTemplate, manifest.spec.leaderWorkerTemplate.workerTemplate] : [];

// --- schemas ---------------------------------------------------------------------------------------------------------------

// Of each value of a published type, what is wrong: `values` has [key of `packages`, value].
function wrongValues(values) {
  const lines = values.map(([type, value], i) => `import type { I${type.split(' ')[1]} as T${i} } from '${packages[type]}'; ` +
    `export const c${i}: T${i} = ${JSON.stringify(value)};`);
  const wrong = values.map(([type, value]) => {
    try {
      new (require(packages[type])[type.split(' ')[1]])(value).validate();
      return [];
    } catch (error) {
      return [`${type}: ${error.message}`];
    }
  });
  fs.writeFileSync('types.ts', lines.join('\n') + '\n');
  const compiled = ts.createProgram(['types.ts'], { strict: true, noEmit: true, skipLibCheck: true, types: [],
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.CommonJS, moduleResolution: ts.ModuleResolutionKind.Node10 });
  for (const { file, start, messageText } of ts.getPreEmitDiagnostics(compiled)) {
    const said = ts.flattenDiagnosticMessageText(messageText, '\n');
    assert(file?.fileName.endsWith('types.ts'), said);
    const { line } = file.getLineAndCharacterOfPosition(start);
    wrong[line].push(`${values[line][0]}: ${said}`);
  }
  return wrong;
}

function wrongBySchema(name, value) {
  const validate = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(JSON.parse(fs.readFileSync(`${name}.json`, 'utf8')));
  return validate(value) ? [] : validate.errors.map((error) => `${name}${error.instancePath}: ${error.message}`);
}

// Of each manifest, what is wrong.
function wrongManifests(all) {
  const wrong = all.map((manifest) => written.includes(manifest.kind) ? wrongBySchema(manifest.kind, manifest) : []);
  const values = all.flatMap((manifest, i) => manifest.kind === 'LeaderWorkerSet'
    ? podTemplates(manifest).map((template) => [i, 'v1 PodTemplateSpec', template])
    : packages[kind(manifest)] ? [[i, kind(manifest), manifest]] : []);
  wrongValues(values.map(([, type, value]) => [type, value])).forEach((said, at) => wrong[values[at][0]].push(...said));
  return wrong;
}

test('manifests fit their schemas', () => {
  for (const [file, manifest] of manifests)
    assert(packages[kind(manifest)] || written.includes(manifest.kind), `${file}: there is no schema for ${kind(manifest)}`);
  assert.deepEqual(wrongManifests(manifests.map(([, manifest]) => manifest)).flat(), []);
});

test('manifests with a mistake do not fit', () => {
  const container = (manifest) => podTemplates(manifest)[0].spec.containers[0];
  const mistakes = [
    ['Deployment', (m) => { m.spec.replica = 2; }],
    ['Deployment', (m) => { m.spec.replicas = '2'; }],
    ['Deployment', (m) => { delete m.spec.selector; }],
    ['Deployment', (m) => { container(m).readinessProbe.httpGet.paths = '/'; }],
    ['Deployment', (m) => { container(m).args[1] = 5; }],
    ['Service', (m) => { m.spec.ports[0].portNumber = 80; }],
    ['HTTPRoute', (m) => { m.spec.rules[0].matches[0].path.type = 'Prefix'; }],
    ['PodMonitor', (m) => { delete m.spec.selector; }],
    ['ScaledObject', (m) => { delete m.spec.triggers[0].type; }],
    ['ScaledObject', (m) => { m.spec.maxReplicas = 8; }],
    ['InferencePool', (m) => { m.spec.extensionRef = {}; }],
    ['InferencePool', (m) => { m.spec.targetPorts[0].number = 70000; }],
    ['LeaderWorkerSet', (m) => { m.spec.leaderWorkerTemplate.restartPolicy = 'Always'; }],
    ['LeaderWorkerSet', (m) => { container(m).probe = {}; }],
  ];
  const wrong = wrongManifests(mistakes.map(([name, change]) => {
    const copy = structuredClone(manifests.find(([, manifest]) => manifest.kind === name)[1]);
    change(copy);
    return copy;
  }));
  mistakes.forEach(([name, change], i) => assert.notDeepEqual(wrong[i], [], `${name}: ${change}`));
});

const compose = yaml.parse(text('compose/compose.yaml'), { merge: true });
test('the compose file fits its schema', () => {
  assert.deepEqual(wrongBySchema('compose', compose), []);
  assert.notDeepEqual(wrongBySchema('compose', { ...compose, service: {} }), []);
  const upstreams = [...text('compose/nginx.conf').matchAll(/^ *server ([a-z0-9-]+):8080/gm)].map(([, name]) => name);
  assert.deepEqual(upstreams, Object.keys(compose.services).filter((name) => name !== 'gateway'));
  for (const name of upstreams) assert.equal(compose.services.gateway.depends_on[name].condition, 'service_healthy');
});

// --- what schemas do not say -------------------------------------------------------------------------------------------------

const option = (args, name) => Number(args.join(' ').match(new RegExp(`--${name}[= ]([0-9]+)`))[1]);
const includes = (labels, selector) => Object.entries(selector).every(([key, value]) => labels[key] === value);

test('names within the manifests fit together', () => {
  const pods = manifests.flatMap(([, manifest]) => podTemplates(manifest));
  for (const pod of pods) {
    const volumes = pod.spec.volumes.map(({ name }) => name);
    for (const { args, ports = [], volumeMounts, ...container } of pod.spec.containers) {
      for (const { name } of volumeMounts) assert(volumes.includes(name), name);
      for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'].map((name) => container[name]).filter(Boolean))
        assert(ports.some(({ name }) => name === probe.httpGet.port), `port ${probe.httpGet.port}`);
      assert(pod.spec.terminationGracePeriodSeconds > option(args, 'drain-delay') + option(args, 'drain-seconds'));
    }
  }
  for (const [, manifest] of manifests) {
    const selector = { Service: manifest.spec.selector, InferencePool: manifest.spec.selector?.matchLabels,
      Deployment: manifest.spec.selector?.matchLabels }[manifest.kind];
    if (selector) assert(pods.some((pod) => includes(pod.metadata.labels, selector)), `${kind(manifest)}: no Pod has ${JSON.stringify(selector)}`);
  }
  const set = manifests.find(([, manifest]) => manifest.kind === 'LeaderWorkerSet')[1];
  const [leader, worker] = podTemplates(set).map((pod) => pod.spec.containers[0]);
  assert.deepEqual(worker.args, leader.args, 'every rank has the same command line');
});

test('the job script runs one command on every task', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'heddle-slurm-'));
  for (const [name, does] of [['srun', 'printf "%s\\n" "$@"'], ['scontrol', 'echo host1; echo host2']])
    fs.writeFileSync(path.join(folder, name), `#!/bin/sh\n${does}\n`, { mode: 0o755 });
  const environment = { PATH: `${folder}:${process.env.PATH}`, SLURM_JOB_NODELIST: 'host[1-2]', MODEL: '/models/a b.gguf' };
  const script = path.join(deploy, 'slurm/heddle.sbatch');
  const said = execFileSync('bash', [script], { env: environment, encoding: 'utf8' }).split('\n');
  assert.equal(said[0], 'API: http://host1:8080/v1');
  assert.deepEqual(said.slice(1, 5), ['--kill-on-bad-exit=1', 'heddle', 'serve', '/models/a b.gguf']);
  assert.throws(() => execFileSync('bash', [script], { env: { ...environment, MODEL: '' }, stdio: 'pipe' }), /the file or folder of the model/);
  const known = ['job-name', 'nodes', 'ntasks-per-node', 'gpus-per-node', 'cpus-per-task', 'time', 'signal', 'output'];  // of sbatch(1)
  for (const [, name] of text('slurm/heddle.sbatch').matchAll(/^#SBATCH --([a-z-]+)=/gm)) assert(known.includes(name), name);
  fs.rmSync(folder, { recursive: true });
});

test('the program has every option', () => {
  const help = execFileSync(program, ['serve', '--help'], { encoding: 'utf8' });
  const lines = [
    ...manifests.flatMap(([, manifest]) => podTemplates(manifest)).flatMap((pod) => pod.spec.containers).map(({ args }) => args.join(' ')),
    ...Object.values(compose.services).filter(({ command }) => command).map(({ command }) => command.join(' ')),
    text('slurm/heddle.sbatch').match(/heddle serve .*$/m)[0],
  ];
  for (const line of lines)
    for (const [, name] of line.matchAll(/ (--[a-z-]+)/g)) assert(new RegExp(`\\s${name}[ ,]`).test(help), `heddle serve has no ${name}`);
});

// --- metrics -----------------------------------------------------------------------------------------------------------------

// Names of all series that a server has after a request.
async function exported() {
  const server = spawn(program, ['serve', 'weft', '--port', '0', '--no-log', '--device', 'cpu']);
  try {
    const url = await new Promise((resolve, reject) => {
      let said = '';
      server.stderr.on('data', (data) => {
        said += data;
        if (/^ready /m.test(said)) resolve(said.match(/^listening +(\S+)/m)[1]);
      });
      server.on('exit', () => reject(new Error(said)));
    });
    await (await fetch(`${url}/v1/completions`, { method: 'POST', headers: { 'content-type': 'application/json' },
      body: '{"prompt": "Once", "max_tokens": 4}' })).json();
    const page = await (await fetch(`${url}/metrics`)).text();
    return new Set([...page.matchAll(/^([a-z_:]+)[{ ]/gmi)].map(([, name]) => name));
  } finally {
    server.removeAllListeners('exit');
    server.kill('SIGTERM');
  }
}

test('queries are of metrics that the program has', async () => {
  const names = await exported();
  const dashboard = JSON.parse(text('grafana/heddle.json'));
  const ids = dashboard.panels.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length, 'each panel has an id of its own');
  const queries = [
    ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    ...dashboard.templating.list.filter(({ type }) => type === 'query').map(({ query }) => query.query),
    ...manifests.filter(([, { kind }]) => kind === 'ScaledObject').flatMap(([, { spec }]) => spec.triggers.map(({ metadata }) => metadata.query)),
  ];
  assert(queries.length > 20);
  const asked = queries.flatMap((query) => {
    const found = query.match(/\b(heddle_|vllm:)[a-z_]+/g);
    assert(found, `no metric in ${query}`);
    return found;
  });
  assert.deepEqual([...new Set(asked)].filter((name) => !names.has(name)), []);
});
