"""Speaking with a service: one description of every call, carried by a blocking and by an awaiting transport.

``service_address`` finds the service, ``request`` says what a call is, the ``*_calls`` files describe the calls noun by
noun, and ``transport`` and ``async_transport`` carry them.
"""
