// Rewrites all files in the project's format: `npm run format`.
import { set_up } from './setup.mjs';
import { check_format } from './stages/check_format.mjs';

await set_up('node');
process.exit(await check_format(true));
