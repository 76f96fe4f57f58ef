// The tour (see tour.py) of a client of the TypeScript SDK. The major versions differ in how requests are named, not in
// what they do.
const NAME = 'Ada';

export const answer = async request => {
    const fields = Object.keys(request.params.requestedSchema.properties);
    return { action: 'accept', content: Object.fromEntries(fields.map(field => [field, NAME])) };
};

export async function tour(client) {
    const progress = [];
    const onprogress = update => progress.push(update.progress);
    const call = (name, args = {}, options = undefined) => client.callTool({ name, arguments: args }, ...options ?? []);
    const textOf = result => result.content[0].text;
    const sum = await call('add', { a: 2, b: 3 });
    return {
        tools: (await client.listTools()).tools.map(tool => tool.name).sort(),
        sum: sum.structuredContent.result,
        counted: textOf(await call('count', { to: 3 }, client.progressOptions(onprogress))),
        progress,
        asked: textOf(await call('ask')),
        failed: (await call('fail')).isError,
        memo: (await client.readResource({ uri: 'memo://one' })).contents[0].text,
        greeting: (await client.getPrompt({ name: 'greet', arguments: { name: NAME } })).messages[0].content.text
    };
}
