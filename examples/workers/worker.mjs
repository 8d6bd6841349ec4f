#!/usr/bin/env node
// A worker for Node.js, without dependencies: worker.mjs SOCKET [TASKS]
// Shreds labels (queue `shredders`): the compensation of printing one. Ends after TASKS tasks.
import http from 'node:http';

const [socketPath, tasks] = process.argv.slice(2);
if (!socketPath) {
    console.error('usage: worker.mjs SOCKET [TASKS]');
    process.exit(2);
}

function post(path, body) {
    return new Promise((resolve, reject) => {
        const request = http.request(
            { socketPath, path: `/v1/${path}`, method: 'POST',
              headers: { 'Content-Type': 'application/json' } },
            (answer) => {
                let text = '';
                answer.setEncoding('utf8');
                answer.on('data', (part) => { text += part; });
                answer.on('end', () => resolve({ status: answer.statusCode, body: JSON.parse(text) }));
            });
        request.on('error', reject);
        request.end(JSON.stringify(body));
    });
}

// The key names the effect; a label that is gone already is shredded.
const shredded = new Map();

async function work(task) {
    const { key, token, payload, compensates } = task;
    if (!shredded.has(key)) {
        console.log(`shreds ${payload.label} of ${compensates}`);
        shredded.set(key, payload.label);
    }
    const { status } = await post('tasks/complete', { key, token, output: { shredded: payload.label } });
    return status === 200 || status === 202;
}

let left = tasks === undefined ? Infinity : Number(tasks);
while (left > 0) {
    try {
        const { status, body } = await post('queues/shredders/take', { worker: 'node', wait: 30 });
        for (const task of status === 200 ? body.tasks : []) {
            if (await work(task)) left -= 1;
        }
    } catch (error) {
        console.error(`the daemon is away: ${error.message}`);
        await new Promise((resolve) => setTimeout(resolve, 1000));
    }
}
