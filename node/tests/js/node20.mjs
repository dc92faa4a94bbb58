// js-libp2p asks for Node 22; this is all of it that Node 20, which Debian 13 has, lacks.

Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new Promise((onResolved, onRejected) => { resolve = onResolved; reject = onRejected })
  return { promise, resolve, reject }
}
