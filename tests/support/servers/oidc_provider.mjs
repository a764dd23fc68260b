// The certified provider `oidc-provider` with one client and one person, whose groups its name tells: NAME.GROUP.GROUP.
//
//   node oidc_provider.mjs PACKAGE ISSUER REDIRECT_URI LOGGED_OUT_URI
//
// Prints `ready`. Each start signs by new keys, as a provider that rotates them does.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const [folder, issuer, redirect, loggedOut] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${folder}/lib/index.js`));
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const key = { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "RS256" };

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "rubricworks-captions",
      client_secret: "of the client & its/own",
      redirect_uris: [redirect],
      post_logout_redirect_uris: [loggedOut],
      token_endpoint_auth_method: "client_secret_basic",
    },
  ],
  jwks: { keys: [key] },
  cookies: { keys: ["of the tests"] },
  pkce: { required: () => true },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => {
      const [name, ...groups] = id.split(".");
      return { sub: id, email: `${name}@example.org`, email_verified: true, groups };
    },
  }),
});
provider.listen(Number(new URL(issuer).port), "127.0.0.1", () => console.log("ready"));
