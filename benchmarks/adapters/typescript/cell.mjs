// The program of one cell of the TypeScript SDK: `node --expose-gc cell.mjs WORK ERA EFFORT`. Prints its figures as JSON.
// What is done here is what `benchmarks/work/` does for the others, with the same checks.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { Client, InMemoryTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { makeServer } from './server.mjs';

const SERVER = fileURLToPath(new URL('server.mjs', import.meta.url));
const MAX_BYTES = 64 * 2 ** 20;
const IDLE = 40;
const TURN = 2;
const TIMEOUT_SECONDS = 5;
const DUMMIES = 200;
const TEXT = 1_000_000;

const [work, era, effortText] = process.argv.slice(2);
const effort = JSON.parse(effortText);
const [kind, inFlight] = /-\d+$/.test(work) ? work.split('-') : [work];

const now = () => Number(process.hrtime.bigint()) / 1e9;
const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));
const cpu = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
};
const residentAfterCollection = () => {
    globalThis.gc();
    return process.memoryUsage.rss();
};
const percentile = (values, part) =>
    [...values].sort((one, other) => one - other)[Math.max(0, Math.ceil(part * values.length) - 1)];
const check = (holds, text) => {
    if (!holds) throw new Error(text);
};

function makeClient() {
    const options = era === '2026' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {};
    return new Client({ name: 'bench', version: '1' }, options);
}

async function stdioClient(dummies = 0) {
    const client = makeClient();
    const args = ['--expose-gc', SERVER, 'stdio', String(dummies)];
    await client.connect(new StdioClientTransport({ command: process.execPath, args, maxBufferSize: MAX_BYTES }));
    return client;
}

async function memoryClient(server) {
    const client = makeClient();
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    await Promise.all([server.connect(theirs), client.connect(ours)]);
    return client;
}

async function httpServer() {
    const child = spawn(process.execPath, ['--expose-gc', SERVER, 'http', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout });
    const url = await new Promise(resolve => lines.once('line', resolve));
    return { child, url };
}

async function httpClient(url) {
    const client = makeClient();
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return client;
}

async function call(client, name, args, options) {
    return (await client.callTool({ name, arguments: args }, options)).structuredContent.result;
}

async function tools(client) {
    const { tools } = await client.listTools({}, { cacheMode: 'bypass' });
    check(tools.every(tool => tool.inputSchema.type === 'object'), 'a schema is none');
    return tools.map(tool => tool.name);
}

async function until(clients, seconds, tool = 'add') {
    const end = now() + seconds;
    const taken = [];
    await Promise.all(
        clients.map(async client => {
            let before = now();
            for (let number = 1; ; number++) {
                const total = await call(client, tool, { a: number, b: 1 });
                check(total === number + 1, `${tool}(${number}, 1) was ${total}`);
                const after = now();
                taken.push(after - before);
                before = after;
                if (after >= end) return;
            }
        })
    );
    return taken;
}

async function measured(client, processes, tool = 'add') {
    await tools(client);
    const workers = Array(Number(inFlight)).fill(client);
    await until(workers, effort.warm_up, tool);
    const theirs = (await call(client, 'usage', { collect: false }))[0];
    const own = cpu();
    const began = now();
    const taken = await until(workers, effort.seconds, tool);
    const seconds = now() - began;
    const used = cpu() - own;
    const server = (await call(client, 'usage', { collect: false }))[0] - theirs;
    const figures = {
        p50_us: percentile(taken, 0.5) * 1e6,
        p99_us: percentile(taken, 0.99) * 1e6,
        rate: taken.length / seconds,
        client_cpu_us: (used / taken.length) * 1e6
    };
    return processes === 1 ? figures : { ...figures, server_cpu_us: (server / taken.length) * 1e6 };
}

async function repeated(ask, repeats) {
    let answer = await ask();
    const taken = [];
    for (let number = 0; number < repeats; number++) {
        const began = now();
        answer = await ask();
        taken.push(now() - began);
    }
    return [answer, { p50_ms: percentile(taken, 0.5) * 1e3, max_ms: Math.max(...taken) * 1e3 }];
}

async function withClient(opening, use) {
    const client = await opening;
    try {
        return await use(client);
    } finally {
        await client.close();
    }
}

async function listing() {
    return withClient(stdioClient(DUMMIES), async client => {
        const [names, figures] = await repeated(() => tools(client), effort.repeats);
        for (let number = 0; number < DUMMIES; number++) {
            check(names.includes(`dummy_${String(number).padStart(3, '0')}`), 'tools are missing');
        }
        return figures;
    });
}

async function text() {
    return withClient(stdioClient(), async client => {
        await tools(client);
        const ask = () => client.callTool({ name: 'text', arguments: { size: TEXT } });
        const [answer, figures] = await repeated(ask, effort.repeats);
        check(answer.content[0].text === 'x'.repeat(TEXT), 'the text is another');
        return figures;
    });
}

async function blob() {
    return withClient(stdioClient(), async client => {
        const ask = () => client.readResource({ uri: 'blob://ten' }, { cacheMode: 'bypass' });
        const [answer, figures] = await repeated(ask, Math.max(1, Math.floor(effort.repeats / 3)));
        const bytes = Buffer.from(answer.contents[0].blob, 'base64');
        check(bytes.length === 10 * 2 ** 20 && bytes.every((byte, at) => byte === at % 256), 'the blob is another');
        return figures;
    });
}

async function storm(over) {
    return over(async client => {
        await tools(client);
        let heard = [];
        const onprogress = ({ progress }) => heard.push(progress);
        const ask = () => call(client, 'storm', { count: effort.updates }, { onprogress });
        await ask();
        await sleep(2 * IDLE);
        const taken = [];
        let inTime = effort.updates;
        for (let number = 0; number < 3; number++) {
            heard = [];
            const began = now();
            const result = await ask();
            taken.push(now() - began);
            inTime = Math.min(inTime, heard.length);
            check(result === effort.updates, `the result was ${result}`);
            check(heard.every((progress, at) => progress === at + 1), 'updates are out of order');
            await sleep(2 * IDLE);
        }
        return {
            per_update_us: (percentile(taken, 0.5) / effort.updates) * 1e6,
            late_updates: effort.updates - inTime
        };
    });
}

async function first(over) {
    return over(async client => {
        await tools(client);
        const taken = [];
        for (let number = 0; number < effort.cancels; number++) {
            let arrived;
            const began = now();
            await call(client, 'storm', { count: 1 }, { onprogress: () => (arrived = now()) });
            while (arrived === undefined) {
                check(now() < began + TIMEOUT_SECONDS, 'no progress arrived');
                await sleep(TURN);
            }
            taken.push(arrived - began);
        }
        return { p50_us: percentile(taken, 0.5) * 1e6, max_us: Math.max(...taken) * 1e6 };
    });
}

async function cancel(over) {
    return over(async client => {
        await tools(client);
        const taken = [];
        for (let number = 1; number <= effort.cancels; number++) {
            const controller = new AbortController();
            const waiting = client.callTool({ name: 'wait', arguments: {} }, { signal: controller.signal }).catch(() => {});
            await sleep(IDLE);
            const cancelled = now();
            controller.abort();
            await waiting;
            await sleep(IDLE);
            let times = await call(client, 'cancelled', {});
            while (times.length < number) {
                check(now() < cancelled + TIMEOUT_SECONDS, `cancellation ${number} did not reach the handler`);
                await sleep(TURN);
                times = await call(client, 'cancelled', {});
            }
            taken.push(times.at(-1) - cancelled);
        }
        return { p50_us: percentile(taken, 0.5) * 1e6, max_us: Math.max(...taken) * 1e6 };
    });
}

async function withHttp(use) {
    const { child, url } = await httpServer();
    try {
        return await use(url);
    } finally {
        child.kill('SIGKILL');
    }
}

const overStdio = use => withClient(stdioClient(), use);
const overHttp = use => withHttp(url => withClient(httpClient(url), use));

async function clients() {
    return withHttp(async url => {
        const watcher = await httpClient(url);
        for (let number = 0; number < 2; number++) {
            await withClient(httpClient(url), client => call(client, 'add', { a: 1, b: 1 }));
        }
        let theirs = (await call(watcher, 'usage', { collect: true }))[1];
        let own = residentAfterCollection();
        const opened = [];
        const called = [];
        const all = [];
        for (let number = 0; number < effort.clients; number++) {
            const began = now();
            const client = await httpClient(url);
            opened.push(now() - began);
            await call(client, 'add', { a: 1, b: 1 });
            called.push(now() - began);
            all.push(client);
        }
        theirs = (await call(watcher, 'usage', { collect: true }))[1] - theirs;
        own = residentAfterCollection() - own;
        await until(all, effort.warm_up);
        const began = now();
        const calls = (await until(all, effort.seconds)).length;
        const rate = calls / (now() - began);
        await Promise.all([watcher, ...all].map(client => client.close()));
        return {
            open_ms: percentile(opened, 0.5) * 1e3,
            first_call_ms: percentile(called, 0.5) * 1e3,
            client_kb: own / effort.clients / 1024,
            server_kb: theirs / effort.clients / 1024,
            rate
        };
    });
}

async function idle() {
    const all = [];
    const open = async () => {
        const client = await memoryClient(makeServer(0));
        await call(client, 'add', { a: 1, b: 1 });
        all.push(client);
    };
    await open();
    const before = residentAfterCollection();
    for (let number = 0; number < effort.sessions; number++) await open();
    const pair = (residentAfterCollection() - before) / effort.sessions / 1024;
    await Promise.all(all.map(client => client.close()));
    return { pair_kb: pair };
}

async function growth() {
    return withClient(memoryClient(makeServer(0)), async client => {
        const many = count =>
            Promise.all(
                Array.from({ length: 16 }, async () => {
                    for (let number = 0; number < Math.floor(count / 16); number++) {
                        const total = await call(client, 'add', { a: number, b: 1 });
                        check(total === number + 1, `add(${number}, 1) was ${total}`);
                    }
                })
            );
        const first = Math.floor(effort.calls / 5);
        await many(first);
        const before = residentAfterCollection();
        await many(effort.calls - first);
        return { growth_mb: (residentAfterCollection() - before) / 2 ** 20 };
    });
}

async function cycles() {
    let before = 0;
    const first = Math.floor(effort.cycles / 4);
    for (let number = 0; number < effort.cycles; number++) {
        if (number === first) before = residentAfterCollection();
        await withClient(memoryClient(makeServer(0)), client => call(client, 'add', { a: 1, b: 1 }));
    }
    return { growth_kb: (residentAfterCollection() - before) / (effort.cycles - first) / 1024 };
}

const WORKS = {
    stdio: () => overStdio(client => measured(client, 2)),
    waiting: () => overStdio(client => measured(client, 2, 'add_later')),
    memory: () => withClient(memoryClient(makeServer(0)), client => measured(client, 1)),
    http: () => overHttp(client => measured(client, 2)),
    list: listing,
    text,
    blob,
    storm: () => storm(overStdio),
    'http-storm': () => storm(overHttp),
    first: () => first(overStdio),
    'http-first': () => first(overHttp),
    cancel: () => cancel(overStdio),
    'http-cancel': () => cancel(overHttp),
    clients,
    idle,
    growth,
    cycles
};

console.log(JSON.stringify(await WORKS[kind]()));
process.exit(0);
